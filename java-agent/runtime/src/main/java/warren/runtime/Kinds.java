package warren.runtime;

/** The bytes of docs/formats.md section 2. */
public final class Kinds {
    public static final int CREATE = 1;
    public static final int WRITE = 2;
    public static final int FORCE = 3;
    public static final int TRUNCATE = 4;
    public static final int RENAME = 5;
    public static final int DELETE = 6;
    public static final int SEND = 7;
    public static final int RECEIVE = 8;
    public static final int MSG_SEND = 9;
    public static final int MSG_RECEIVE = 10;

    public static final int BEFORE = 1;
    public static final int AFTER = 2;

    public static final int PHASE_TEST = 2;

    public static final int GO_ON = 0;
    public static final int THROW = 1;
    public static final int LOSE = 2;

    private Kinds() {}
}
