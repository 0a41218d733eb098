// Package rows decodes what a SELECT gives, in the binary protocol, into the rows that package binlog decodes of the same table:
// the same bytes for the same row, so that an initial load and the stream agree.
//
// A session must have the Settings. Strings then come in the charset of their column and are decoded by the decoder that the
// stream uses: where a column holds bytes that are no character, a conversion by the server would give a question mark, and the
// stream an error that names them. Raw gives a key's bytes as they are stored, which tell more than its text: of cp932 and its
// like, two sequences of bytes are one character. FLOAT is read exactly, as the binary protocol has its four bytes.
//
// MariaDB's UUID, INET4 and INET6 come as the server prints them, and so do DECIMAL and JSON, which are texts in either protocol.
package rows
