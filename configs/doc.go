// Package configs is the YAML schema of a Rowtrail node in Go: strict loading, defaults, and every error at once.
//
// The struct tags of the types in config.go are the only description of the file: the decoder, the defaults,
// docs/configuration.md and schema.json all follow them (a test fails when the two generated ones are stale;
// `go generate ./configs` rewrites them). An unknown key is an error with its line. `${NAME}`, `${NAME:-default}` and
// `${file:/path}` are expanded in the parsed values, never in the YAML text, so a value cannot change the file's
// structure. Values that may carry a secret are held in types that print themselves as [redacted].
package configs

//go:generate go test -count=1 -run TestGenerated . -update
