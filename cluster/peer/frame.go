package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxFrameBytes bounds one frame: the largest batch that can be stored, in a message.
const maxFrameBytes = 48 << 20

// firstBytes is what a frame is given room for before any of it has arrived. A larger one gets more as it comes: a length alone costs nothing.
const firstBytes = 1 << 20

var errFrame = errors.New("bad frame between nodes")

// WriteFrame writes a length and the bytes, in one write.
func WriteFrame(w io.Writer, b []byte) error {
	out := make([]byte, 0, 4+len(b))
	out = binary.BigEndian.AppendUint32(out, uint32(len(b))) //nolint:gosec // bounded by the caller
	_, err := w.Write(append(out, b...))
	return err
}

// ReadFrame reads one frame of at most limit bytes.
func ReadFrame(r io.Reader, limit int) ([]byte, error) {
	var word [4]byte
	if _, err := io.ReadFull(r, word[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(word[:]))
	if n > limit && n>>16 == tlsHandshake {
		return nil, errSpeaksTLS
	}
	if n > limit {
		return nil, fmt.Errorf("%w: %d bytes, at most are %d; what calls is no rowtrail node", errFrame, n, limit)
	}
	buf := make([]byte, min(n, firstBytes))
	for read := 0; ; {
		m, err := io.ReadFull(r, buf[read:])
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if read += m; read == n {
			return buf, nil
		}
		next := make([]byte, min(n, 4*read))
		copy(next, buf)
		buf = next
	}
}
