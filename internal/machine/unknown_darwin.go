package machine

// PortHolder is not known on this system.
func PortHolder(string) (Holder, bool) { return Holder{}, false }

// NetworkFS is not known on this system.
func NetworkFS(string) (string, bool) { return "", false }
