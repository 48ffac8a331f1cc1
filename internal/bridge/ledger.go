package bridge

import "time"

// CallStart is the ledger's first line about a call, written before the call
// goes to a host. Argument values are never in it.
type CallStart struct {
	ID         CallID    `json:"id"`
	At         time.Time `json:"at"`
	Received   time.Time `json:"received"` // when the caller asked; At is when it was handed over
	Peer       string    `json:"peer"`
	Client     string    `json:"client,omitempty"`
	Tool       string    `json:"tool"`
	Tier       Tier      `json:"tier,omitempty"`
	Host       string    `json:"host"`
	Instance   string    `json:"instance,omitempty"` // of the host, to recognise it when it comes back
	ArgsBytes  int       `json:"args_bytes"`
	ArgsSHA256 string    `json:"args_sha256"`
	Ref        Ref       `json:"ref"`
}

// CallEnd is the ledger's last line about a call. A call that never reached a
// host has only this line.
type CallEnd struct {
	ID       CallID        `json:"id"`
	At       time.Time     `json:"at"`
	Peer     string        `json:"peer"`
	Client   string        `json:"client,omitempty"`
	Tool     string        `json:"tool"`
	Host     string        `json:"host,omitempty"`
	State    State         `json:"state"`
	Kind     Kind          `json:"kind,omitempty"`
	Executed Executed      `json:"executed"`
	Waited   time.Duration `json:"waited_ns"`
	Ran      time.Duration `json:"ran_ns"`
	Bytes    int           `json:"result_bytes"`
	Late     bool          `json:"ran_late,omitempty"` // a result came after the call had ended otherwise
}
