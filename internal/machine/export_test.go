package machine

// Parts that depend on nothing of this machine.
var (
	LingerIn   = lingerIn
	ParseUnits = parseUnits
	Run        = run
	Printable  = printable
)
