package warren.runtime;

import java.io.IOException;
import java.lang.reflect.Modifier;

/**
 * One dictionary hook: a method that sends or receives a whole message, or writes a record of a store (a `hook` line of agent.conf). Made by {@link Conf}; the
 * transformer asks it where to insert calls, {@link Dict} what to record there.
 */
public final class Hook {
    private static final int BRIDGE = 0x40;
    private static final int SYNTHETIC = 0x1000;
    private static final String LAMBDA = "lambda$";

    /** Stands in the changed class; stable for the same line, so offline jars fit any later run. */
    public final int id;
    public final String line;
    public final String method;
    public final String classGlob;
    public final String methodGlob;
    public final int kind;
    public final boolean before;
    public final boolean after;
    public final boolean skippable;
    public final Expr message;
    public final Expr peer;
    /** Its method part takes several: then only what a class offers to others. */
    private final boolean several;
    /** Its method part begins with {@code lambda$}: it means bodies of lambdas, which no other takes. */
    private final boolean lambdas;
    /** As {@link #method}, for frames, in which the body of a lambda has no number. */
    private final String frames;

    private Hook(String line, String method, int kind, boolean before, boolean after, boolean skippable, Expr message, Expr peer) {
        this.line = line;
        this.method = method;
        int dot = method.lastIndexOf('.');
        this.classGlob = method.substring(0, dot);
        this.methodGlob = method.substring(dot + 1);
        this.several = methodGlob.indexOf('*') >= 0;
        this.lambdas = methodGlob.startsWith(LAMBDA);
        String body = lambdas && methodGlob.endsWith("$*") ? methodGlob.substring(0, methodGlob.length() - 2) : StackId.method(methodGlob);
        this.frames = classGlob + "." + body;
        this.kind = kind;
        this.before = before;
        this.after = after;
        this.skippable = skippable;
        this.message = message;
        this.peer = peer;
        long h = Fnv.of(line);
        this.id = (int) (h ^ (h >>> 32));
    }

    static Hook parse(String line) throws IOException {
        String[] words = split(line);
        String method = words[0];
        if (method.lastIndexOf('.') <= 0) {
            throw new IOException("`" + method + "` is not class.method");
        }
        int kind = 0;
        String place = null;
        boolean skippable = false;
        Expr message = null;
        Expr peer = null;
        for (int i = 1; i < words.length; i++) {
            int eq = words[i].indexOf('=');
            String key = eq < 0 ? words[i] : words[i].substring(0, eq);
            String value = eq < 0 ? "" : words[i].substring(eq + 1);
            switch (key) {
                case "kind":
                    kind = kind(value);
                    break;
                case "place":
                    place = value;
                    break;
                case "skippable":
                    skippable = value.equals("true");
                    break;
                case "message":
                    message = value.isEmpty() ? null : Expr.parse(value);
                    break;
                case "peer":
                    peer = value.isEmpty() ? null : Expr.parse(value);
                    break;
                default:
                    throw new IOException("unknown key `" + key + "` of a hook");
            }
        }
        if (kind == 0) {
            throw new IOException("a hook's kind is msg-send, msg-receive or write");
        }
        if (place == null) {
            place = kind == Kinds.MSG_RECEIVE ? "after" : "before";
        }
        boolean both = place.equals("both");
        if (!both && !place.equals("before") && !place.equals("after")) {
            throw new IOException("a hook's place is before, after or both");
        }
        if (skippable && (kind != Kinds.MSG_SEND || place.equals("after"))) {
            throw new IOException("skippable is for msg-send with place before: only a message that is not sent yet can be lost");
        }
        return new Hook(line, method, kind, both || place.equals("before"), both || place.equals("after"), skippable, message, peer);
    }

    private static int kind(String word) {
        switch (word) {
            case "msg-send":
                return Kinds.MSG_SEND;
            case "msg-receive":
                return Kinds.MSG_RECEIVE;
            case "write":
                return Kinds.WRITE;
            default:
                return 0;
        }
    }

    /** Words separated by spaces; a quoted text keeps its spaces. */
    private static String[] split(String line) {
        java.util.ArrayList<String> words = new java.util.ArrayList<>();
        StringBuilder word = new StringBuilder();
        boolean quoted = false;
        for (int i = 0; i < line.length(); i++) {
            char c = line.charAt(i);
            if (c == '\'') {
                quoted = !quoted;
            }
            if (c == ' ' && !quoted) {
                if (word.length() > 0) {
                    words.add(word.toString());
                    word.setLength(0);
                }
            } else {
                word.append(c);
            }
        }
        if (word.length() > 0) {
            words.add(word.toString());
        }
        return words.toArray(new String[0]);
    }

    /**
     * True if a method of a class that fits is hooked. None that the compiler made: a bridge only calls the method that was written, and
     * the message would count twice. With a {@code *} no private one either: what helps a handler handles no message. One that is named
     * in full is meant, private or not.
     *
     * @param access of the class file
     */
    public boolean takes(String name, int access) {
        boolean made = (access & BRIDGE) != 0 || (access & SYNTHETIC) != 0 && !lambdas;
        boolean hidden = several && !lambdas && (access & Modifier.PRIVATE) != 0;
        return !made && !hidden && byName(name) && Glob.matches(methodGlob, name);
    }

    /** True if a frame, {@code class.method}, is one of a hooked method as far as names tell. */
    boolean covers(String frame) {
        return Glob.matches(frames, frame) && byName(frame.substring(frame.lastIndexOf('.') + 1));
    }

    /** Constructors and initialisers are never hooked, the bodies of lambdas only where they are meant. */
    private boolean byName(String name) {
        return !name.startsWith("<") && !name.startsWith("access$") && (lambdas || !name.startsWith(LAMBDA));
    }

    /** True if it names one method of one class, as most do. */
    public boolean named() {
        return method.indexOf('*') < 0;
    }

    /** Highest argument index its expressions use, or -1. */
    public int highestArgument() {
        return Math.max(message == null ? -1 : message.argument(), peer == null ? -1 : peer.argument());
    }

    /** True if an expression uses argument {@code n}. */
    public boolean uses(int n) {
        return (message != null && message.argument() == n) || (peer != null && peer.argument() == n);
    }
}
