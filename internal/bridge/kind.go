package bridge

// Kind says why something did not happen. It is an error, so that packages
// return it wrapped and test for it with errors.Is; only a front turns it
// into a wire code, in one table.
type Kind string

// The kinds. Each mapping table (fronts, ctl) has a row for every one.
const (
	NoHost          Kind = "no host"            // nobody attached, not ready or frozen until the wait ended
	QueueFull       Kind = "queue full"         //
	Paused          Kind = "paused"             // the owner paused the bridge
	Stopping        Kind = "stopping"           // the daemon is going down
	Moved           Kind = "moved"              // another session is behind the address now
	ToolUnavailable Kind = "tool unavailable"   // unknown or denied; callers cannot tell which
	BadArguments    Kind = "bad arguments"      //
	TooLarge        Kind = "too large"          // the arguments
	Denied          Kind = "denied"             // by the host's policy or its owner
	NotApproved     Kind = "not approved"       // nobody answered the approval in time
	CallerGone      Kind = "caller gone"        //
	CancelledByPeer Kind = "cancelled by peer"  //
	CancelledHere   Kind = "cancelled by owner" // from the control program
	NotArrived      Kind = "not arrived"        // handed over, but the host never got it
	HostLost        Kind = "host lost"          // while the call was running
	ResultTooLarge  Kind = "result too large"   // it ran
	HostFault       Kind = "host fault"         // the host broke the protocol or cannot run tools
	NotFound        Kind = "not found"          // no such host, call or token
	Conflict        Kind = "conflict"           // the name is taken
	LedgerFault     Kind = "ledger fault"       // the audit file cannot be written, so nothing with effects may start
)

// Kinds lists every kind, for the tests of the mapping tables.
func Kinds() []Kind {
	return []Kind{NoHost, QueueFull, Paused, Stopping, Moved, ToolUnavailable, BadArguments, TooLarge,
		Denied, NotApproved, CallerGone, CancelledByPeer, CancelledHere, NotArrived, HostLost,
		ResultTooLarge, HostFault, NotFound, Conflict, LedgerFault}
}

func (k Kind) Error() string { return string(k) }
