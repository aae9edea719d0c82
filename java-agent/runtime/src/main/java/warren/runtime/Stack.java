package warren.runtime;

/** One distinct stack of the target, made by {@link Stacks} when it is first seen; what is asked at each point is kept here. */
final class Stack {
    final long id;
    /** {@code class.method}, innermost first. */
    final String[] frames;
    /** False: no own frame, an appender of a logger, or a `skip` frame; it never makes a point. */
    final boolean point;
    final boolean background;
    /** 1-based role its innermost role frame shows, or 0. */
    final int role;
    /** It runs inside a hooked method of that direction: the message is the point, not the JRE call below. */
    final boolean inMessageSend;
    final boolean inMessageReceive;

    /** Index of its entry in the occurrence table by kind * 3 + place, + 1; 0 = not looked up yet. */
    final int[] occurrence = new int[33];

    /** Which pattern entries of a plan this stack fits; kept together with the plan it was computed for. */
    volatile Plan.Fit fit;

    Stack(long id, String[] frames, boolean point, boolean background, int role, boolean send, boolean receive) {
        this.id = id;
        this.frames = frames;
        this.point = point;
        this.background = background;
        this.role = role;
        inMessageSend = send;
        inMessageReceive = receive;
    }
}
