package canary;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;

/** One log entry. Its place is (epoch, index): two logs that agree on both at one index agree up to there. */
final class Entry {
    static final int NOOP = 0;
    static final int PUT = 1;
    static final int CREATE = 2;
    static final int CAS = 3;
    static final int DELETE = 4;

    final long epoch;
    final long index;
    /** Names the request that made it, so that the node whose client asked can answer. 0 = nobody asked. */
    final long request;
    final int kind;
    final long expect;
    final String key;
    final String value;

    Entry(long epoch, long index, long request, int kind, long expect, String key, String value) {
        this.epoch = epoch;
        this.index = index;
        this.request = request;
        this.kind = kind;
        this.expect = expect;
        this.key = key;
        this.value = value;
    }

    Entry at(long newEpoch, long newIndex) {
        return new Entry(newEpoch, newIndex, request, kind, expect, key, value);
    }

    void encode(DataOutputStream out) throws IOException {
        out.writeLong(epoch);
        out.writeLong(index);
        out.writeLong(request);
        out.writeInt(kind);
        out.writeLong(expect);
        out.writeUTF(key);
        out.writeUTF(value);
    }

    static Entry decode(DataInputStream in) throws IOException {
        return new Entry(in.readLong(), in.readLong(), in.readLong(), in.readInt(), in.readLong(), in.readUTF(), in.readUTF());
    }
}
