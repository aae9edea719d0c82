package warren.runtime;

/**
 * The occurrence table of the node page: one entry per (StackId, kind, place) with the interval it was last used in and the count
 * in that interval. Called by {@link Points} for every point. Nothing is ever reset: a newer interval starts at 1.
 */
final class Occurrences {
    private static final int ENTRY = 32;
    /** In place of an entry: there was none left. */
    private static final int FULL = -1;

    private Occurrences() {}

    /**
     * Counts an arrival.
     *
     * @param interval of the state word the caller read
     * @return {@code interval << 32 | n}; its interval is newer than the caller's if another thread saw a newer one first. 0 when the
     *     table was full when this stack first came: then it is never counted.
     */
    static long arrive(Stack stack, int kind, int place, int interval) {
        int cached = stack.occurrence[kind * 3 + place];
        if (cached == 0) {
            int found = find(stack, kind, place);
            cached = found < 0 ? FULL : found + 1;
            stack.occurrence[kind * 3 + place] = cached;
        }
        if (cached == FULL) {
            return 0;
        }
        Mem node = Link.node;
        int at = Link.OCC + (cached - 1) * ENTRY;
        node.add(at + 16, 1);
        while (true) {
            long old = node.get(at + 8);
            long next = (int) (old >>> 32) < interval ? (long) interval << 32 | 1 : old + 1;
            if (node.cas(at + 8, old, next)) {
                return next;
            }
        }
    }

    private static int find(Stack stack, int kind, int place) {
        Mem node = Link.node;
        long key = Fnv.occurrence(stack.id, kind, place);
        int index = (int) Long.remainderUnsigned(key, Link.OCC_ENTRIES);
        for (int i = 0; i < Link.OCC_ENTRIES; i++) {
            int at = Link.OCC + index * ENTRY;
            long k = node.get(at);
            if (k == 0 && node.cas(at, 0, key)) {
                k = key;
            } else if (k == 0) {
                k = node.get(at);
            }
            if (k == key) {
                if (stack.background) {
                    node.put(at + 24, 1);
                }
                return index;
            }
            index = (index + 1) % Link.OCC_ENTRIES;
        }
        Link.count(Link.ERRORS);
        return -1;
    }
}
