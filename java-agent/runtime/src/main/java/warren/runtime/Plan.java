package warren.runtime;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * The faults that wait for points of this node, read from PLAN whenever PLAN_GEN changed. Asked by {@link Points} at each point; a
 * plan is immutable but for the counts of its patterns.
 */
final class Plan {
    private static final int ENTRY = 128;
    private static final int MAX = 64;
    private static final long SPIN_NS = 1_000_000;

    /** Bit i: entry i is a pattern and its frames and wanted stack fit. */
    static final class Fit {
        final Plan plan;
        final long mask;

        Fit(Plan plan, long mask) {
            this.plan = plan;
            this.mask = mask;
        }
    }

    private static final class Entry {
        int index;
        boolean pattern;
        long stack;
        int kind;
        int place;
        int n;
        int phase;
        int role;
        String[] globs;
        /** Offset of its accept_less word in the page: it changes without a new generation. */
        int acceptLess;
    }

    private static volatile Plan latest = new Plan(0, new Entry[0]);

    private final long generation;
    private final Entry[] entries;
    /** Pattern arrivals of entry i: {@code interval << 32 | n}. */
    private final AtomicLongArray counts;

    private Plan(long generation, Entry[] entries) {
        this.generation = generation;
        this.entries = entries;
        this.counts = new AtomicLongArray(entries.length);
    }

    /** The plan as it stands; reads the page again when its generation moved. */
    static Plan current() {
        Plan plan = latest;
        return Link.node.get(Link.PLAN_GEN) == plan.generation ? plan : reload();
    }

    private static synchronized Plan reload() {
        long until = System.nanoTime() + SPIN_NS;
        do {
            long before = Link.node.get(Link.PLAN_GEN);
            if (before == latest.generation) {
                return latest;
            }
            if ((before & 1) == 0) {
                Entry[] entries = read();
                if (Link.node.get(Link.PLAN_GEN) == before) {
                    latest = new Plan(before, entries);
                    return latest;
                }
            }
        } while (System.nanoTime() < until);
        return latest; // still being written: the old plan holds for this point
    }

    private static Entry[] read() {
        Mem node = Link.node;
        int count = (int) Math.max(0, Math.min(MAX, node.get(Link.PLAN_COUNT)));
        Entry[] entries = new Entry[count];
        for (int i = 0; i < count; i++) {
            int at = Link.PLAN + i * ENTRY;
            Entry e = new Entry();
            e.index = (int) node.get(at);
            e.pattern = (node.get(at + 8) & 2) != 0;
            e.stack = node.get(at + 16);
            e.kind = (int) node.get(at + 24);
            e.place = (int) node.get(at + 32);
            e.n = (int) node.get(at + 40);
            e.phase = (int) node.get(at + 48);
            e.role = (int) node.get(at + 56);
            long offset = node.get(at + 64);
            long length = node.get(at + 72);
            e.globs = new String[0];
            if (e.pattern && length > 0 && offset >= 0 && offset + length <= Link.PATTERN_BYTES) {
                String text = new String(node.read(Link.PATTERNS + (int) offset, (int) length), StandardCharsets.UTF_8);
                e.globs = lines(text);
            }
            e.acceptLess = at + 80;
            entries[i] = e;
        }
        return entries;
    }

    private static String[] lines(String text) {
        java.util.ArrayList<String> lines = new java.util.ArrayList<>();
        int from = 0;
        while (from < text.length()) {
            int end = text.indexOf('\n', from);
            end = end < 0 ? text.length() : end;
            if (end > from) {
                lines.add(text.substring(from, end));
            }
            from = end + 1;
        }
        return lines.toArray(new String[0]);
    }

    /**
     * Does this arrival meet the awaited fault? Counts pattern arrivals on the way, so it must be asked exactly once per arrival.
     *
     * @param occurrence {@code interval << 32 | n} of the exact (stack, kind, place)
     * @param role the node's role at this point
     * @return the fault's index, or -1
     */
    int match(Stack stack, int kind, int place, int phase, int current, long occurrence, int role) {
        int found = -1;
        for (int i = 0; i < entries.length; i++) {
            Entry e = entries[i];
            if (e.index != current || e.phase != phase || e.kind != 0 && e.kind != kind || e.place != 0 && e.place != place) {
                continue;
            }
            int n;
            if (e.pattern) {
                if (e.role != 0 && e.role != role || (fit(stack) & 1L << i) == 0) {
                    continue;
                }
                n = arrive(i, (int) (occurrence >>> 32));
            } else if (e.stack == stack.id) {
                n = (int) occurrence;
            } else {
                continue;
            }
            if (n == e.n || Link.node.get(e.acceptLess) == 1) {
                found = e.index;
            }
        }
        return found;
    }

    private int arrive(int i, int interval) {
        while (true) {
            long old = counts.get(i);
            long next = (int) (old >>> 32) < interval ? (long) interval << 32 | 1 : old + 1;
            if (counts.compareAndSet(i, old, next)) {
                return (int) next;
            }
        }
    }

    private long fit(Stack stack) {
        Fit fit = stack.fit;
        if (fit == null || fit.plan != this) {
            long mask = 0;
            for (int i = 0; i < entries.length; i++) {
                Entry e = entries[i];
                if (e.pattern && (e.stack == 0 || e.stack == stack.id) && Glob.inOrder(e.globs, stack.frames)) {
                    mask |= 1L << i;
                }
            }
            fit = new Fit(this, mask);
            stack.fit = fit;
        }
        return fit.mask;
    }
}
