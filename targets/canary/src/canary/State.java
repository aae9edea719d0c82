package canary;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;

/** What the applied entries add up to: the keys, and a running digest over the entries. Guarded by the node's lock. */
final class State {
    /** What applying an entry came to. */
    static final class Answer {
        final String text;

        Answer(String text) {
            this.text = text;
        }
    }

    static final class Value {
        final String text;
        final long version;
        /** Index of the entry that wrote it. */
        final long changed;

        Value(String text, long version, long changed) {
            this.text = text;
            this.version = version;
            this.changed = changed;
        }
    }

    long applied;
    long digest = 17;
    final TreeMap<String, Value> keys = new TreeMap<>();

    Answer apply(Entry e) {
        applied = e.index;
        digest = digest * 31 + e.index;
        digest = (digest * 31 + e.key.hashCode()) * 31 + e.value.hashCode();
        Value old = keys.get(e.key);
        long version = old == null ? 0 : old.version + 1;
        switch (e.kind) {
            case Entry.NOOP:
                return ok(e, 0);
            case Entry.PUT:
                break;
            case Entry.CREATE:
                if (old != null) {
                    return new Answer("fail Exists");
                }
                break;
            case Entry.CAS:
                if (old == null || old.version != e.expect) {
                    return new Answer("fail BadVersion");
                }
                break;
            case Entry.DELETE:
                return keys.remove(e.key) == null ? new Answer("fail Missing") : ok(e, 0);
            default:
                throw new IllegalStateException("entry " + e.index + " of unknown kind " + e.kind);
        }
        keys.put(e.key, new Value(e.value, version, e.index));
        return ok(e, version);
    }

    private static Answer ok(Entry e, long version) {
        return new Answer("ok " + e.index + " " + version);
    }

    State copy() {
        State other = new State();
        other.applied = applied;
        other.digest = digest;
        other.keys.putAll(keys);
        return other;
    }

    void encode(DataOutputStream out) throws IOException {
        out.writeLong(digest);
        out.writeInt(keys.size());
        for (Map.Entry<String, Value> e : keys.entrySet()) {
            out.writeUTF(e.getKey());
            out.writeUTF(e.getValue().text);
            out.writeLong(e.getValue().version);
            out.writeLong(e.getValue().changed);
        }
    }

    static State decode(DataInputStream in, long applied) throws IOException {
        State state = new State();
        state.applied = applied;
        state.digest = in.readLong();
        for (int n = in.readInt(); n > 0; n--) {
            state.keys.put(in.readUTF(), new Value(in.readUTF(), in.readLong(), in.readLong()));
        }
        return state;
    }
}
