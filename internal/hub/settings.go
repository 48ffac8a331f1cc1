package hub

import "time"

// What to do with a call while nobody can run it.
const (
	QueueMode  = "queue"
	RejectMode = "reject"
)

// Settings are what the owner can change while the hub runs. Zero or less
// means the default, but for the three durations that may be none.
type Settings struct {
	QueueMode       string        // queue or reject
	QueueWait       time.Duration // 0: not at all
	QueueCalls      int           // per host
	QueueBytes      int64         // of arguments, per host
	Concurrency     int           // calls at one host at the same time
	ResultBytes     int64
	ApprovalTimeout time.Duration
	ResumeGrace     time.Duration // how long a lost host may take to come back with its calls; 0: it is given up at once
	ResumeKeep      time.Duration // how long a result is kept for a caller who resumes; 0: not at all
	Deny            []string      // globs over tool names
	DenyMCPTools    bool
}

// Defaults are the settings of a bridge without a configuration.
func Defaults() Settings {
	return Settings{
		QueueMode: QueueMode, QueueWait: time.Minute, QueueCalls: 64, QueueBytes: 16 << 20,
		Concurrency: 32, ResultBytes: 16 << 20, ApprovalTimeout: 5 * time.Minute,
		ResumeGrace: 10 * time.Second, ResumeKeep: 2 * time.Minute,
	}
}

func (s Settings) withDefaults() Settings {
	d := Defaults()
	if s.QueueMode != RejectMode {
		s.QueueMode = QueueMode
	}
	s.QueueCalls = orDefault(s.QueueCalls, d.QueueCalls)
	s.QueueBytes = orDefault(s.QueueBytes, d.QueueBytes)
	s.Concurrency = orDefault(s.Concurrency, d.Concurrency)
	s.ResultBytes = orDefault(s.ResultBytes, d.ResultBytes)
	s.ApprovalTimeout = orDefault(s.ApprovalTimeout, d.ApprovalTimeout)
	return s
}

func orDefault[T int | int64 | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}
