package warren.runtime;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;

/**
 * One mapped page or map: little-endian 64-bit words at byte offsets, shared with other processes (docs/formats.md).
 *
 * <p>Made by {@link Link} in premain; read and written by every hook. Two implementations, chosen by the version of the JVM:
 * {@code Mem9} (a view VarHandle over the buffer) and {@link Mem8} (Unsafe, found by reflection). No method touches a channel
 * after the mapping is made, so an interrupted target thread cannot close anything.
 */
public abstract class Mem {
    /** Reads a word with acquire semantics. */
    public abstract long get(int offset);

    /** Writes a word with release semantics. */
    public abstract void put(int offset, long value);

    /** Compares and sets a word. */
    public abstract boolean cas(int offset, long expected, long value);

    /** Adds to a word and returns what it held before. */
    public abstract long add(int offset, long delta);

    public abstract void putByte(int offset, byte value);

    public abstract byte getByte(int offset);

    /** Copies bytes in, without any ordering of their own; publish them by a later {@link #put}. */
    public abstract void write(int offset, byte[] bytes);

    /** Copies bytes out. */
    public abstract byte[] read(int offset, int length);

    /** Maps a whole existing file, shared and writable. */
    public static Mem map(File file) throws IOException {
        try (RandomAccessFile raf = new RandomAccessFile(file, "rw")) {
            long size = raf.length();
            if (size < 8 || size > Integer.MAX_VALUE) {
                throw new IOException(file + " has " + size + " bytes; a page of 8 bytes to 2 GiB was expected");
            }
            MappedByteBuffer buffer = raf.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, size);
            return over(buffer, System.getProperty("java.specification.version").startsWith("1."));
        }
    }

    static Mem over(MappedByteBuffer buffer, boolean java8) throws IOException {
        if (java8) {
            return new Mem8(buffer);
        }
        try {
            return (Mem) Class.forName("warren.runtime.Mem9").getConstructor(MappedByteBuffer.class).newInstance(buffer);
        } catch (ReflectiveOperationException e) {
            throw new IOException("Mem9 is not beside Mem: the runtime jar is incomplete", e);
        }
    }
}
