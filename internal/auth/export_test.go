package auth

// Bearer and ParseFile read foreign bytes.
var Bearer = bearer

func ParseFile(data []byte) error {
	_, err := parseFile(data)
	return err
}
