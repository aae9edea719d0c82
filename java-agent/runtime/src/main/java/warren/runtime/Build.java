package warren.runtime;

/** Which build this is. The cargo package's build.rs writes the hash of all sources here, in its own copy; 0 = built by hand. */
public final class Build {
    public static final long HASH = 0L;

    private Build() {}
}
