package machine

// Parts that depend on nothing of this machine.
var (
	LingerIn   = lingerIn
	UnitFile   = unitFile
	ParseUnits = parseUnits
	Run        = run
	Printable  = printable
)
