package warren.runtime;

/**
 * From the present thread's frames to a {@link Stack}, with two caches: by a fast key over all frames (the usual case, one cheap
 * walk) and by id (the same own frames reached along other lines). Called by {@link Points} and {@link Dict} inside the guard.
 */
final class Stacks {
    private static final String[] APPENDERS = {"org.apache.log4j.", "org.apache.logging.log4j.", "ch.qos.logback.", "java.util.logging."};

    private static Conf conf = new Conf();
    private static final LongTable BY_KEY = new LongTable(1 << 16);
    private static final LongTable BY_ID = new LongTable(1 << 16);

    private Stacks() {}

    static void start(Conf parsed) {
        conf = parsed;
    }

    /** The stack of the present thread. */
    static Stack capture() throws Throwable {
        Throwable here = new Throwable();
        long key = Walker.key(here);
        Stack known = (Stack) BY_KEY.get(key);
        return known != null ? known : first(key, Walker.frames(here));
    }

    private static synchronized Stack first(long key, String[] raw) {
        Stack made = classify(raw, conf);
        Stack known = (Stack) BY_ID.get(made.id);
        // Two raw stacks with the same own frames may differ in a logger's frames between them: only equal answers share.
        if (known == null || known.point != made.point) {
            if (made.point) {
                String[] both = StackId.filter(raw);
                StringBuilder lines = new StringBuilder();
                for (int i = 1; i < both.length; i += 2) {
                    lines.append(both[i]).append('\n');
                }
                Intern.stack(made.id, lines.toString());
                BY_ID.put(made.id, made);
            }
            known = made;
        }
        BY_KEY.put(key, known);
        return known;
    }

    /** Pure: what a raw stack (class, method, line in turn) means under this configuration. */
    static Stack classify(String[] raw, Conf conf) {
        boolean log = false;
        for (int i = 0; i < raw.length && !log; i += 3) {
            for (String prefix : APPENDERS) {
                log |= raw[i].startsWith(prefix);
            }
        }
        String[] both = StackId.filter(raw);
        String[] frames = new String[both.length / 2];
        for (int i = 0; i < frames.length; i++) {
            frames[i] = both[2 * i];
        }
        long id = StackId.of(frames);
        boolean skip = false;
        boolean background = false;
        boolean send = false;
        boolean receive = false;
        int role = 0;
        for (String frame : frames) {
            skip |= Glob.any(conf.skips, frame);
            background |= Glob.any(conf.backgroundFrames, frame);
            for (int r = 0; r < conf.roleFrames.length && role == 0; r++) {
                if (Glob.matches(conf.roleFrames[r], frame)) {
                    role = conf.roleOf[r];
                }
            }
            for (Hook hook : conf.hooks) {
                if (hook.covers(frame)) {
                    send |= hook.kind == Kinds.MSG_SEND;
                    receive |= hook.kind == Kinds.MSG_RECEIVE;
                }
            }
        }
        for (long known : conf.backgroundIds) {
            background |= known == id;
        }
        return new Stack(id, frames, frames.length > 0 && !log && !skip, background, role, send, receive);
    }
}
