package localsock

// SameUserAs is SameUser for another uid than ours.
var SameUserAs = sameUser
