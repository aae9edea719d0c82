package warren.workload;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;

/**
 * The mapped page between Warren and one workload process (docs/formats.md section 8). Used by {@link Runner} only; refuses a
 * page of another layout.
 *
 * <p>Words are aligned, so a plain get or put of a direct buffer is one 8-byte access; the volatile field beside it gives the
 * order (acquire after a read, release before a write) on every JDK from 8 on without Unsafe or VarHandle.
 */
final class WorkloadPage {
    static final int SIZE = 4096;
    static final long MAGIC = 0x3147_4b57_4e52_4157L;
    static final long LAYOUT = 3;

    static final int CONNECT = 1;
    static final int GO = 2;
    static final int STOP = 3;
    static final int DEGRADED = 4;
    static final int HEALED = 5;
    static final int CHECK = 6;
    static final int CHECK_DURABLE = 7;
    static final int EXIT = 8;

    private static final int COMMAND = 2;
    private static final int DONE = 3;
    private static final int FAULTS_DONE = 4;
    private static final int FIXED_DONE = 5;
    private static final int OPS_OK = 6;
    private static final int OPS_DONE = 7;
    private static final int SEED = 8;
    private static final int DEADLINE = 9;
    private static final int ERROR = 10;
    private static final int FAULTS = 11;
    private static final int TO_COME = 12;
    /** Of TO_COME: all faults were done or given up before GO; none were asked for. 0: some are awaited. */
    static final long OVER = 1;
    static final long NONE_ASKED = 2;
    private static final int NODES = 16;

    private final MappedByteBuffer buffer;
    private volatile long fence;
    /** Takes what the fence's read gives, so that the read stays. */
    private long fenced;

    WorkloadPage(String path) throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(path, "rw")) {
            if (file.length() < SIZE) {
                throw new IOException("workload page " + path + ": " + file.length() + " bytes, want " + SIZE);
            }
            buffer = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, SIZE);
        }
        buffer.order(ByteOrder.LITTLE_ENDIAN);
        if (get(0) != MAGIC || get(1) != LAYOUT) {
            throw new IOException("workload page " + path + ": magic " + Long.toHexString(get(0)) + ", layout " + get(1)
                    + "; this library reads layout " + LAYOUT);
        }
    }

    private long get(int word) {
        long value = buffer.getLong(word * 8);
        fenced = fence;
        return value;
    }

    private void put(int word, long value) {
        fence = 0;
        buffer.putLong(word * 8, value);
        fence = 0;
    }

    int command() {
        return (int) get(COMMAND);
    }

    void done(int command) {
        put(DONE, command);
    }

    /** When the last fault was done or given up (System.nanoTime of this machine), 0 = not yet. */
    long faultsDone() {
        return get(FAULTS_DONE);
    }

    /** How many faults are done. */
    long faults() {
        return get(FAULTS);
    }

    /** Said before GO: no fault comes any more, or none ever was to. */
    boolean overAtGo() {
        return get(TO_COME) == OVER || noneAsked();
    }

    /** Said before GO: a run without faults. */
    boolean noneAsked() {
        return get(TO_COME) == NONE_ASKED;
    }

    void fixedDone(long time) {
        put(FIXED_DONE, time);
    }

    void operations(long ok, long all) {
        put(OPS_OK, ok);
        put(OPS_DONE, all);
    }

    long seed() {
        return get(SEED);
    }

    /** When traffic must have ended, ns, 0 = no such time. */
    long deadline() {
        return get(DEADLINE);
    }

    void error() {
        put(ERROR, 1);
    }

    /** {@code incarnation << 8 | alive} of a node. */
    long node(int index) {
        return get(NODES + index);
    }
}
