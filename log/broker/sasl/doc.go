// Package sasl is the server's side of PLAIN and SCRAM (RFC 4616, RFC 5802): who may log in, and the exchange of
// messages by which a client shows it. It has no network and no clock.
//
// A client learns from an exchange whether it succeeded and nothing else: a name that is nobody's has a salt and keys
// that follow from a secret, so that its exchange looks like any other's and fails at the same place, and one error
// stands for every failure. Errors never hold what a client sent, which may be a password for another mechanism.
package sasl
