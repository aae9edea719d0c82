package warren.runtime;

import java.io.IOException;
import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.Member;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Optional;

/**
 * An expression of a dictionary hook: {@code argN}, {@code this}, {@code ret} or a static member ({@code some.pkg.Type::member} or
 * {@code ...::method()}, of which a server tells whose call its thread is at), then {@code .field} or {@code .method()} steps; or
 * {@code 'text'}. An Optional is what it holds. Evaluated by {@link Dict} on the hooked method's frame, with the found members cached per class. Never throws into
 * the target: {@link #eval} fails with an exception that Dict counts.
 */
public final class Expr {
    private static final int THIS = -1;
    private static final int RET = -2;
    private static final int STATIC = -3;

    private final String literal;
    private final int root;
    /** Of a static member: the class that has it. */
    private final String owner;
    private final String[] steps;
    /** Per step: the class asked last and the member found for it (one object, so that both are read together). */
    private final Found[] cache;

    /** What a step is of one class; a step that is none there is looked for once, too. */
    private static final class Found {
        final Class<?> type;
        final Member member;

        Found(Class<?> type, Member member) {
            this.type = type;
            this.member = member;
        }
    }

    private Expr(String literal, int root, String owner, String[] steps) {
        this.literal = literal;
        this.root = root;
        this.owner = owner;
        this.steps = steps;
        this.cache = new Found[steps.length];
    }

    public static Expr parse(String text) throws IOException {
        if (text.length() >= 2 && text.charAt(0) == '\'' && text.charAt(text.length() - 1) == '\'') {
            return new Expr(text.substring(1, text.length() - 1), THIS, null, new String[0]);
        }
        ArrayList<String> parts = new ArrayList<>();
        int colons = text.indexOf("::");
        String owner = colons > 0 ? text.substring(0, colons) : null;
        int from = owner == null ? 0 : colons + 2;
        for (int dot = text.indexOf('.', from); dot >= 0; dot = text.indexOf('.', from)) {
            parts.add(text.substring(from, dot));
            from = dot + 1;
        }
        parts.add(text.substring(from));
        if (owner != null && owner.indexOf('.') < 0) {
            throw new IOException("`" + text + "`: before :: stands a class with its package");
        }
        String first = owner == null ? parts.remove(0) : "";
        int root;
        if (owner != null) {
            root = STATIC;
        } else if (first.equals("this")) {
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
            throw new IOException("`" + text + "` starts with neither argN, this, ret, a class and :: nor a quote");
        }
        for (String step : parts) {
            if (step.isEmpty() || step.equals("()")) {
                throw new IOException("`" + text + "` has an empty step");
            }
        }
        return new Expr(null, root, owner, parts.toArray(new String[0]));
    }

    int argument() {
        return literal == null && root >= 0 ? root : -1;
    }

    /** The value, or null where a step gives null. */
    Object eval(Object self, Object[] args, Object ret) throws ReflectiveOperationException {
        if (literal != null) {
            return literal;
        }
        Object value;
        int from = 0;
        if (root == STATIC) {
            value = staticMember(self);
            from = 1;
        } else {
            value = held(root == THIS ? self : root == RET ? ret : root < args.length ? args[root] : null);
        }
        for (int i = from; i < steps.length && value != null; i++) {
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
            if (found.member == null) {
                throw new NoSuchFieldException(steps[i]);
            }
            value = get(found.member, value);
        }
        return value;
    }

    /** The first step, of a class that the hooked method's own class can see. */
    private Object staticMember(Object self) throws ReflectiveOperationException {
        Found found = cache[0];
        if (found == null) {
            ClassLoader loader = self == null ? Thread.currentThread().getContextClassLoader() : self.getClass().getClassLoader();
            Class<?> type = null;
            Member member = null;
            try {
                type = Class.forName(owner, true, loader);
                member = find(type, steps[0]);
            } catch (ClassNotFoundException e) {
                // another version of the system
            }
            boolean usable = member != null && Modifier.isStatic(member.getModifiers());
            found = new Found(type, usable ? member : null);
            // Without a self the next thread may have another loader.
            if (usable || self != null) {
                cache[0] = found;
            }
        }
        if (found.member == null) {
            throw new NoSuchFieldException(owner + "::" + steps[0] + " is not there, or not static");
        }
        return get(found.member, null);
    }

    /** Whether a step was looked for, and is not again for the same class. For tests. */
    boolean isKnown(int step) {
        return cache[step] != null;
    }

    private static Object get(Member member, Object of) throws ReflectiveOperationException {
        return held(member instanceof Field ? ((Field) member).get(of) : ((Method) member).invoke(of));
    }

    private static Object held(Object value) {
        return value instanceof Optional ? ((Optional<?>) value).orElse(null) : value;
    }

    /** The first member of the class, its supertypes and all their interfaces that may be used from here; null where there is none. */
    private static Member find(Class<?> type, String step) {
        for (Class<?> c = type; c != null; c = c.getSuperclass()) {
            Member found = declared(c, step);
            found = found == null ? ofInterfaces(c, step) : found;
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    private static Member ofInterfaces(Class<?> c, String step) {
        for (Class<?> i : c.getInterfaces()) {
            Member found = declared(i, step);
            found = found == null ? ofInterfaces(i, step) : found;
            if (found != null) {
                return found;
            }
        }
        return null;
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
