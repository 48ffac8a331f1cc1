package hub

// For the fuzz tests of what hosts send.
var (
	DecodeTools  = decodeTools
	Validate     = validate
	TopLevelTrue = topLevelTrue
	CleanName    = cleanName
)
