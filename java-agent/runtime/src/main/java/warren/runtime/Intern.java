package warren.runtime;

import java.util.concurrent.ConcurrentHashMap;

/**
 * The INTERN region of the node page: stacks and texts that events refer to, each stored once per incarnation. Called by
 * {@link Stacks}, {@link Peers}, {@link Paths} and {@link Link#warn}. A record that does not fit is counted and gets offset 0.
 */
final class Intern {
    private static final int STACK = 1;
    private static final int TEXT = 2;
    private static final int MAX_TEXT = 512;
    private static final ConcurrentHashMap<String, Integer> TEXTS = new ConcurrentHashMap<>();

    private Intern() {}

    /** Offset + 1 of the text, or 0 when the region is full. */
    static int text(String text) {
        Integer known = TEXTS.get(text);
        if (known != null) {
            return known;
        }
        String cut = text.length() > MAX_TEXT ? text.substring(0, MAX_TEXT) : text;
        synchronized (TEXTS) {
            known = TEXTS.get(text);
            if (known == null) {
                byte[] bytes = Link.utf8(cut);
                known = append(TEXT, Fnv.of(bytes), bytes);
                if (known != 0) {
                    TEXTS.put(text, known);
                }
            }
            return known;
        }
    }

    static void stack(long id, String lines) {
        synchronized (TEXTS) {
            append(STACK, id, Link.utf8(lines));
        }
    }

    /** Under the lock. Word 0 and 1, the payload, then INTERN_NEXT: a reader never sees half a record. */
    private static int append(int type, long id, byte[] payload) {
        Mem node = Link.node;
        int padded = (payload.length + 7) & ~7;
        long next = node.get(Link.INTERN_NEXT);
        if (next + 16 + padded > Link.internBytes) {
            node.add(Link.INTERN_DROPPED, 1);
            return 0;
        }
        int at = Link.internBase + (int) next;
        node.put(at, (long) type << 32 | payload.length);
        node.put(at + 8, id);
        node.write(at + 16, payload);
        node.put(Link.INTERN_NEXT, next + 16 + padded);
        return (int) next + 1;
    }
}
