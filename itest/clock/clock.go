// Package clock moves the wall clock of one process, as an operator or a bad time server would that of its machine.
package clock

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Clock moves the wall clock of one process. The kernel has no such thing: time namespaces shift the clocks since boot only, and
// only before a process begins. But a Go program asks its wall clock through the vDSO, a page that each process has as a copy of
// its own once it is written to. So the function there is replaced by one that asks the kernel and adds a number of seconds that
// stands behind it; clocks other than the wall clock stay as they are. Nothing in the product knows of it.
type Clock struct {
	PID int

	offset int64 // the number's address
}

// replacement is clock_gettime(id, *timespec) for the kernel's registers: only for id 0 are seconds added.
func replacement() []byte {
	return []byte{
		0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, 228
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi
		0x75, 0x0a, // jne end
		0x48, 0x8b, 0x0d, 0x04, 0x00, 0x00, 0x00, // mov rcx, [rip+4]
		0x48, 0x01, 0x0e, // add [rsi], rcx
		0xc3, // end: ret
		0, 0, 0, 0, 0, 0, 0, 0,
	}
}

const (
	replacementWord = 22 // where the number is in it
	clockTries      = 100
	clockRetry      = 2 * time.Millisecond
)

// ErrNone is of a kernel or machine that does not let a process's clock be moved.
var ErrNone = errors.New("the clock of a process cannot be moved here")

// Take takes over the clock of a running process.
func Take(pid int) (*Clock, error) {
	if runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("%w: it is done for amd64 only", ErrNone)
	}
	first, last, err := vdso(pid)
	if err != nil {
		return nil, err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	defer mem.Close()
	image := make([]byte, last-first)
	if _, err := mem.ReadAt(image, first); err != nil {
		return nil, fmt.Errorf("%w: read the vDSO: %w", ErrNone, err)
	}
	function, err := clockFunction(image)
	if err != nil {
		return nil, err
	}
	code := replacement()
	pad := int(-(first + function + replacementWord) & 7) // the number must not straddle words: it is read while it is written
	code = append(code[:replacementWord], append(make([]byte, pad), code[replacementWord:]...)...)
	code[14] += byte(pad)
	if err := stopped(pid, first, last, func() error {
		_, err := mem.WriteAt(code, first+function)
		return err
	}); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	return &Clock{PID: pid, offset: first + function + replacementWord + int64(pad)}, nil
}

// Set moves the clock, counted from the machine's.
func (c *Clock) Set(d time.Duration) error {
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", c.PID), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("move the clock: %w", err)
	}
	defer mem.Close()
	if _, err := mem.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(int64(d/time.Second))), c.offset); err != nil {
		return fmt.Errorf("move the clock: %w", err)
	}
	return nil
}

// vdso is where it lies in a process.
func vdso(pid int) (first, last int64, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasSuffix(s.Text(), "[vdso]") {
			_, err := fmt.Sscanf(s.Text(), "%x-%x", &first, &last)
			return first, last, err
		}
	}
	return 0, 0, fmt.Errorf("%w: no vDSO", ErrNone)
}

func clockFunction(image []byte) (int64, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNone, err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNone, err)
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" && s.Size > uint64(len(replacement())+8) {
			return int64(s.Value), nil
		}
	}
	return 0, fmt.Errorf("%w: no function that is large enough", ErrNone)
}

// stopped runs f while the process is stopped and none of its threads is in a range of addresses.
func stopped(pid int, first, last int64, f func() error) error {
	for range clockTries {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return err
		}
		clear, err := stands(pid, first, last)
		if err == nil && clear {
			err = f()
		}
		if e := syscall.Kill(pid, syscall.SIGCONT); err == nil {
			err = e
		}
		if clear || err != nil {
			return err
		}
		time.Sleep(clockRetry)
	}
	return errors.New("a thread is always asking for the time")
}

// stands says whether all threads have stopped outside of a range of addresses.
func stands(pid int, first, last int64) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		b, err := os.ReadFile(thread + "/syscall")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return false, err
		}
		fields := strings.Fields(string(b)) // "running", or numbers of which the last is the program counter
		if len(fields) < 2 {
			return false, nil
		}
		pc, err := strconv.ParseInt(strings.TrimPrefix(fields[len(fields)-1], "0x"), 16, 64)
		if err != nil {
			return false, fmt.Errorf("where is thread %s: %w", thread, err)
		}
		if pc >= first && pc < last {
			return false, nil
		}
	}
	return true, nil
}
