package warren.runtime;

import java.io.IOException;
import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.Member;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;

/**
 * An expression of a dictionary hook: {@code argN}, {@code this} or {@code ret}, then {@code .field} or {@code .method()} steps; or
 * {@code 'text'}. Evaluated by {@link Dict} on the hooked method's frame, with the found members cached per class. Never throws into
 * the target: {@link #eval} fails with an exception that Dict counts.
 */
public final class Expr {
    private static final int THIS = -1;
    private static final int RET = -2;

    private final String literal;
    private final int root;
    private final String[] steps;
    /** Per step: the class asked last and the member found for it (one object, so that both are read together). */
    private final Found[] cache;

    private static final class Found {
        final Class<?> type;
        final Member member;

        Found(Class<?> type, Member member) {
            this.type = type;
            this.member = member;
        }
    }

    private Expr(String literal, int root, String[] steps) {
        this.literal = literal;
        this.root = root;
        this.steps = steps;
        this.cache = new Found[steps.length];
    }

    public static Expr parse(String text) throws IOException {
        if (text.length() >= 2 && text.charAt(0) == '\'' && text.charAt(text.length() - 1) == '\'') {
            return new Expr(text.substring(1, text.length() - 1), THIS, new String[0]);
        }
        ArrayList<String> parts = new ArrayList<>();
        int from = 0;
        for (int dot = text.indexOf('.'); dot >= 0; dot = text.indexOf('.', from)) {
            parts.add(text.substring(from, dot));
            from = dot + 1;
        }
        parts.add(text.substring(from));
        String first = parts.remove(0);
        int root;
        if (first.equals("this")) {
            root = THIS;
        } else if (first.equals("ret")) {
            root = RET;
        } else if (first.startsWith("arg")) {
            try {
                root = Integer.parseInt(first.substring(3));
            } catch (NumberFormatException e) {
                throw new IOException("`" + text + "`: argN needs a number", e);
            }
            if (root < 0 || root > 254) {
                throw new IOException("`" + text + "`: no method has such an argument");
            }
        } else {
            throw new IOException("`" + text + "` starts with neither argN, this, ret nor a quote");
        }
        for (String step : parts) {
            if (step.isEmpty() || step.equals("()")) {
                throw new IOException("`" + text + "` has an empty step");
            }
        }
        return new Expr(null, root, parts.toArray(new String[0]));
    }

    int argument() {
        return literal == null && root >= 0 ? root : -1;
    }

    /** The value, or null where a step gives null. */
    Object eval(Object self, Object[] args, Object ret) throws ReflectiveOperationException {
        if (literal != null) {
            return literal;
        }
        Object value = root == THIS ? self : root == RET ? ret : root < args.length ? args[root] : null;
        for (int i = 0; i < steps.length && value != null; i++) {
            if (value instanceof java.net.Socket && steps[i].equals("getRemoteSocketAddress()")) {
                // the usual peer; a reflective call costs milliseconds when the JVM writes an accessor class for it
                value = ((java.net.Socket) value).getRemoteSocketAddress();
                continue;
            }
            Found found = cache[i];
            if (found == null || found.type != value.getClass()) {
                found = new Found(value.getClass(), find(value.getClass(), steps[i]));
                cache[i] = found;
            }
            value = found.member instanceof Field
                    ? ((Field) found.member).get(value)
                    : ((Method) found.member).invoke(value);
        }
        return value;
    }

    /** Searches the class, its supertypes and interfaces for the first member that may be used from here. */
    private static Member find(Class<?> type, String step) throws NoSuchFieldException {
        for (Class<?> c = type; c != null; c = c.getSuperclass()) {
            Member found = declared(c, step);
            if (found != null) {
                return found;
            }
            for (Class<?> i : c.getInterfaces()) {
                found = declared(i, step);
                if (found != null) {
                    return found;
                }
            }
        }
        throw new NoSuchFieldException(step);
    }

    private static Member declared(Class<?> c, String step) {
        AccessibleObject found;
        try {
            found = step.endsWith("()")
                    ? c.getDeclaredMethod(step.substring(0, step.length() - 2))
                    : c.getDeclaredField(step);
        } catch (NoSuchMethodException | NoSuchFieldException e) {
            return null;
        }
        try {
            found.setAccessible(true);
            return (Member) found;
        } catch (RuntimeException e) {
            // a class of the JRE that is not open to us: good enough if it is public anyway
            boolean open = Modifier.isPublic(c.getModifiers()) && Modifier.isPublic(((Member) found).getModifiers())
                    && c.getName().startsWith("java.");
            return open ? (Member) found : null;
        }
    }
}
