package machine

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// networkMagic names the file systems whose locks and shared memory cannot be
// trusted between machines.
var networkMagic = map[int64]string{
	unix.NFS_SUPER_MAGIC:   "nfs",
	unix.SMB_SUPER_MAGIC:   "smb",
	unix.SMB2_SUPER_MAGIC:  "smb",
	unix.CIFS_SUPER_MAGIC:  "cifs",
	unix.V9FS_MAGIC:        "9p",
	unix.AFS_SUPER_MAGIC:   "afs",
	unix.AFS_FS_MAGIC:      "afs",
	unix.CEPH_SUPER_MAGIC:  "ceph",
	unix.CODA_SUPER_MAGIC:  "coda",
	unix.OCFS2_SUPER_MAGIC: "ocfs2",
	0x0BD00BD0:             "lustre",
	0x01161970:             "gfs2",
}

// networkFUSE names what may stand behind FUSE, which has one magic for all.
var networkFUSE = []string{"sshfs", "glusterfs", "rclone", "s3fs", "gcsfuse", "davfs", "cephfs", "juicefs", "gvfsd-fuse", "vmhgfs-fuse"}

// NetworkFS says whether a directory is on a network file system, and on
// which. A directory that does not exist yet counts as its nearest parent.
func NetworkFS(dir string) (string, bool) {
	dir = existing(dir)
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", false
	}
	magic := int64(st.Type) & 0xFFFFFFFF // signed on some machines
	if magic == unix.FUSE_SUPER_MAGIC {
		f, err := os.Open("/proc/self/mountinfo")
		if err != nil {
			return "", false
		}
		defer func() { _ = f.Close() }()
		kind, ok := strings.CutPrefix(mountType(f, dir), "fuse.")
		for _, name := range networkFUSE {
			if ok && kind == name {
				return kind, true
			}
		}
		return "", false
	}
	name, ok := networkMagic[magic]
	return name, ok
}

// existing returns the path without links, up to where it exists.
func existing(dir string) string {
	for {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return real
		}
		up := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || up == dir {
			return dir
		}
		dir = up
	}
}

// mountType returns the type of the mount that holds a path, from the text of
// /proc/self/mountinfo; "" when none does.
func mountType(mountinfo io.Reader, path string) string {
	best, kind := -1, ""
	for lines := bufio.NewScanner(mountinfo); lines.Scan(); {
		// 36 35 98:0 /root /mount options [tags] - type source options
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		types := strings.Fields(after)
		if !ok || len(fields) < 5 || len(types) == 0 {
			continue
		}
		mount := unescape(fields[4])
		inside := mount == "/" || path == mount || strings.HasPrefix(path, mount+"/")
		if inside && len(mount) >= best { // a later mount covers an earlier one
			best, kind = len(mount), types[0]
		}
	}
	return kind
}

// unescape reads the \040 of the kernel.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
