package machine

// Parts that depend on nothing of this machine.
var (
	MountType = mountType
	ParseAddr = parseAddr
)
