package warren.runtime;

import java.nio.charset.StandardCharsets;

/**
 * The faults that wait for points of this node, read from PLAN whenever PLAN_GEN changed. Asked by {@link Points} at each point; a
 * plan is immutable. Arrivals are counted in the page, entry by entry: the executor watches there whether a point still comes, and a
 * rebooted node goes on counting.
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
        /** Offset of the word that counts its arrivals: {@code interval << 32 | n}. The word after it has the time of the last one. */
        int arrivals;
        /** {@code until next << 32 | ms} of a fault that is a stall; 0 for all others. */
        long stall;
    }

    private static volatile Plan latest = new Plan(0, new Entry[0]);

    private final long generation;
    private final Entry[] entries;

    private Plan(long generation, Entry[] entries) {
        this.generation = generation;
        this.entries = entries;
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
            e.arrivals = at + 88;
            e.stall = node.get(at + 104);
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
     * Does this arrival meet the awaited fault? Counts the arrivals of each entry on the way, so it must be asked exactly once per
     * arrival.
     *
     * @param time when it came
     * @param occurrence {@code interval << 32 | n} of the exact (stack, kind, place)
     * @param role the node's role at this point
     * @return {@code n << 32 | the fault's index}, n being the number by which it matched; or -1
     */
    long match(long time, Stack stack, int kind, int place, int phase, int current, long occurrence, int role) {
        long found = -1;
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
                n = arrive(e, (int) (occurrence >>> 32), time);
            } else if (e.stack == stack.id) {
                arrive(e, (int) (occurrence >>> 32), time);
                n = (int) occurrence;
            } else {
                continue;
            }
            if (n == e.n || Link.node.get(e.acceptLess) == 1) {
                found = (long) n << 32 | e.index;
            }
        }
        return found;
    }

    /** How the fault {@code index} holds the thread that meets it, as {@link Entry#stall} has it. */
    long stall(int index) {
        for (Entry e : entries) {
            if (e.index == index) {
                return e.stall;
            }
        }
        return 0;
    }

    private static int arrive(Entry e, int interval, long time) {
        Mem node = Link.node;
        // The time first: who sees the new count must not take an old time for its own.
        node.put(e.arrivals + 8, time);
        while (true) {
            long old = node.get(e.arrivals);
            long next = (int) (old >>> 32) < interval ? (long) interval << 32 | 1 : old + 1;
            if (node.cas(e.arrivals, old, next)) {
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
