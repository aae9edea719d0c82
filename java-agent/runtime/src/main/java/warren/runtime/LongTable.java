package warren.runtime;

import java.util.concurrent.atomic.AtomicLongArray;

/**
 * A map from non-zero longs to objects, read without locks and without boxing; entries are only ever added. Used for stacks by
 * their fast key or id and for peers.
 */
final class LongTable {
    private static final class Data {
        final AtomicLongArray keys;
        final Object[] values;

        Data(int size) {
            keys = new AtomicLongArray(size);
            values = new Object[size];
        }
    }

    private final int limit;
    private volatile Data data = new Data(256);
    private int used;

    /** A table that takes no more than {@code limit} entries; later ones are silently not kept. */
    LongTable(int limit) {
        this.limit = limit;
    }

    Object get(long key) {
        key = key == 0 ? 1 : key;
        Data d = data;
        int mask = d.values.length - 1;
        for (int i = slot(key, mask); ; i = (i + 1) & mask) {
            long k = d.keys.get(i);
            if (k == key) {
                return d.values[i];
            }
            if (k == 0) {
                return null;
            }
        }
    }

    synchronized void put(long key, Object value) {
        key = key == 0 ? 1 : key;
        if (used >= limit) {
            return;
        }
        if (used * 2 >= data.values.length) {
            Data old = data;
            Data bigger = new Data(old.values.length * 2);
            for (int i = 0; i < old.values.length; i++) {
                if (old.keys.get(i) != 0) {
                    insert(bigger, old.keys.get(i), old.values[i]);
                }
            }
            data = bigger;
        }
        if (insert(data, key, value)) {
            used++;
        }
    }

    private static boolean insert(Data d, long key, Object value) {
        int mask = d.values.length - 1;
        for (int i = slot(key, mask); ; i = (i + 1) & mask) {
            long k = d.keys.get(i);
            if (k == key) {
                return false;
            }
            if (k == 0) {
                d.values[i] = value; // before the key: a reader that sees the key sees the value
                d.keys.set(i, key);
                return true;
            }
        }
    }

    private static int slot(long key, int mask) {
        return (int) (key ^ (key >>> 32)) & mask;
    }
}
