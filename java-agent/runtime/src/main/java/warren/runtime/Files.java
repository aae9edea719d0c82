package warren.runtime;

import java.io.File;
import java.io.FileDescriptor;
import java.io.IOException;
import java.io.SyncFailedException;
import java.nio.ByteBuffer;

/**
 * What the changed file classes of the JRE call (the table is in docs/hooks.md), and what application classes call instead of native
 * methods that have no body to change. Cheap filters first: nothing, own logs and standard output never reach the stack walk.
 */
public final class Files {
    /** Set by premain: FileDescriptor.sync and RandomAccessFile.setLength are native here, so application calls make the point. */
    public static boolean nativeSync;

    public static boolean nativeSetLength;

    private static final int O_ACCMODE = 3;
    private static final int O_CREAT = 0100;
    private static final int O_TRUNC = 01000;

    private Files() {}

    /** A file is opened for writing (java.io). */
    public static void open(String path) throws IOException {
        make(Kinds.CREATE, Kinds.BEFORE, path, null, 0);
    }

    /** RandomAccessFile.open: mode bit 1 is "rw" and stronger. */
    public static void openMode(String path, int mode) throws IOException {
        if ((mode & 2) != 0) {
            make(Kinds.CREATE, Kinds.BEFORE, path, null, 0);
        }
    }

    /** UnixNativeDispatcher.open with open(2) flags. */
    public static void openFlags(Object path, int flags) throws IOException {
        if ((flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_ACCMODE) != 0) {
            make(Kinds.CREATE, Kinds.BEFORE, path, null, 0);
        }
    }

    public static void create(Object path) throws IOException {
        make(Kinds.CREATE, Kinds.BEFORE, path, null, 0);
    }

    public static void write(int one, String path, FileDescriptor fd) throws IOException {
        if (fd != FileDescriptor.out && fd != FileDescriptor.err) {
            make(Kinds.WRITE, Kinds.BEFORE, path, null, 1);
        }
    }

    public static void write(byte[] bytes, String path, FileDescriptor fd) throws IOException {
        if (bytes != null && bytes.length > 0 && fd != FileDescriptor.out && fd != FileDescriptor.err) {
            make(Kinds.WRITE, Kinds.BEFORE, path, null, bytes.length);
        }
    }

    public static void writeLength(int length, String path, FileDescriptor fd) throws IOException {
        if (length > 0 && fd != FileDescriptor.out && fd != FileDescriptor.err) {
            make(Kinds.WRITE, Kinds.BEFORE, path, null, length);
        }
    }

    public static void write(ByteBuffer buffer, String path, FileDescriptor fd) throws IOException {
        if (buffer != null && buffer.hasRemaining() && fd != FileDescriptor.out && fd != FileDescriptor.err) {
            make(Kinds.WRITE, Kinds.BEFORE, path, null, buffer.remaining());
        }
    }

    public static void write(ByteBuffer[] buffers, int offset, int length, String path, FileDescriptor fd) throws IOException {
        long bytes = Net.remaining(buffers, offset, length);
        if (bytes > 0 && fd != FileDescriptor.out && fd != FileDescriptor.err) {
            make(Kinds.WRITE, Kinds.BEFORE, path, null, bytes);
        }
    }

    public static void forceBefore(String path) throws IOException {
        make(Kinds.FORCE, Kinds.BEFORE, path, null, 0);
    }

    public static void forceAfter(String path) throws IOException {
        make(Kinds.FORCE, Kinds.AFTER, path, null, 0);
    }

    public static void truncate(String path) throws IOException {
        make(Kinds.TRUNCATE, Kinds.BEFORE, path, null, 0);
    }

    public static void renameBefore(Object from, Object to) throws IOException {
        make(Kinds.RENAME, Kinds.BEFORE, from, to, 0);
    }

    /** After File.renameTo, which says false where nothing was renamed. */
    public static void renameAfter(boolean done, Object from, Object to) throws IOException {
        if (done) {
            renameAfter(from, to);
        }
    }

    public static void renameAfter(Object from, Object to) throws IOException {
        make(Kinds.RENAME, Kinds.AFTER, from, to, 0);
    }

    public static void delete(Object path) throws IOException {
        make(Kinds.DELETE, Kinds.BEFORE, path, null, 0);
    }

    /** Called by application classes instead of FileDescriptor.sync. */
    public static void sync(FileDescriptor fd) throws SyncFailedException {
        if (!nativeSync) {
            fd.sync();
            return;
        }
        quiet(Kinds.FORCE, Kinds.BEFORE);
        fd.sync();
        quiet(Kinds.FORCE, Kinds.AFTER);
    }

    /** Called by application classes instead of RandomAccessFile.setLength. */
    public static void setLength(java.io.RandomAccessFile file, long length) throws IOException {
        if (nativeSetLength) {
            make(Kinds.TRUNCATE, Kinds.BEFORE, null, null, 0);
        }
        file.setLength(length);
    }

    private static void quiet(int kind, int place) throws SyncFailedException {
        try {
            make(kind, place, null, null, 0);
        } catch (IOException e) {
            throw (SyncFailedException) new SyncFailedException(e.getMessage()).initCause(e);
        }
    }

    /** {@code path} and {@code second} are texts, Files or Paths; {@code second} is shown behind an arrow. */
    private static void make(int kind, int place, Object path, Object second, long bytes) throws IOException {
        if (!Points.on) {
            return;
        }
        int ticket = Guard.enter();
        if (ticket < 0) {
            return;
        }
        int action = Kinds.GO_ON;
        try {
            Paths known = Paths.UNKNOWN;
            if (path != null) {
                String text = path instanceof File ? ((File) path).getPath() : path.toString();
                known = Paths.of(text);
            }
            if (known.point) {
                Stack stack = Stacks.capture();
                if (stack.point) {
                    int detail = known.text;
                    if (second != null) {
                        String from = Paths.relative(path.toString(), Link.folder);
                        String to = Paths.relative(second.toString(), Link.folder);
                        detail = Intern.text(from.concat(" -> ").concat(to));
                    }
                    action = Points.point(kind, place, stack, 0, 0, detail, bytes, false, false);
                }
            }
        } catch (Throwable t) {
            Link.count(Link.ERRORS);
        } finally {
            Guard.exit(ticket);
        }
        if (action == Kinds.THROW) {
            throw new IOException("warren: this file operation was made to fail");
        }
    }
}
