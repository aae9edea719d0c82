package warren.runtime;

import java.net.SocketException;

/**
 * What methods named by the dictionary call: a whole message is sent or received (hook lines of agent.conf). Knows the hooks by the
 * number that stands in the changed class; a number it does not know (an older dictionary) does nothing.
 */
public final class Dict {
    private static Hook[] hooks = {};

    private Dict() {}

    static void start(Conf conf) {
        hooks = conf.hooks;
    }

    /** At the entry of a hooked method. */
    public static void enter(int id, Object self, Object[] args) throws SocketException {
        run(id, self, args, null, Kinds.BEFORE, false);
    }

    /**
     * At the entry of a hooked method that can be skipped.
     *
     * @return true if the method is to return at once: the message is lost
     */
    public static boolean lost(int id, Object self, Object[] args) throws SocketException {
        return run(id, self, args, null, Kinds.BEFORE, true);
    }

    /** Before a hooked method returns; {@code ret} is null for void and primitive results. */
    public static void exit(Object ret, int id, Object self, Object[] args) throws SocketException {
        run(id, self, args, ret, Kinds.AFTER, false);
    }

    private static boolean run(int id, Object self, Object[] args, Object ret, int place, boolean skippable) throws SocketException {
        if (!Points.on) {
            return false;
        }
        Hook hook = null;
        for (Hook h : hooks) {
            if (h.id == id) {
                hook = h;
            }
        }
        if (hook == null) {
            return false;
        }
        int ticket = Guard.enter();
        if (ticket < 0) {
            return false;
        }
        int action = Kinds.GO_ON;
        try {
            Stack stack = Stacks.capture();
            if (stack.point) {
                // A failing expression gives no text and takes nothing from the other one; the point stays.
                int detail = 0;
                try {
                    detail = hook.message == null ? 0 : detail(hook.message.eval(self, args, ret));
                } catch (Throwable t) {
                    Link.count(Link.ERRORS);
                }
                Peers peer = peer(hook, self, args, ret);
                action = Points.point(hook.kind, place, stack, peer.ip, peer.text, detail, 0, false, skippable);
            } else if (skippable && Net.isCut()) {
                // No point, but a message all the same: a cut that loses messages loses this one, too.
                action = Net.cut(peer(hook, self, args, ret).ip, false, true);
            }
        } catch (Throwable t) {
            Link.count(Link.ERRORS);
        } finally {
            Guard.exit(ticket);
        }
        if (action == Kinds.THROW) {
            throw new SocketException("Broken pipe (warren: this message was made to fail)");
        }
        return action == Kinds.LOSE;
    }

    private static Peers peer(Hook hook, Object self, Object[] args, Object ret) {
        try {
            return hook.peer == null ? Peers.NONE : Peers.ofValue(hook.peer.eval(self, args, ret));
        } catch (Throwable t) {
            Link.count(Link.ERRORS);
            return Peers.NONE;
        }
    }

    private static int detail(Object value) {
        if (value == null) {
            return 0;
        }
        boolean plain = value instanceof CharSequence || value instanceof Number || value instanceof Boolean
                || value instanceof Character || value instanceof Enum;
        return Intern.text(plain ? value.toString() : value.getClass().getName());
    }
}
