package warren.agent;

import java.io.File;
import java.io.FileDescriptor;
import java.io.RandomAccessFile;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.Modifier;
import java.security.ProtectionDomain;
import warren.runtime.Conf;
import warren.runtime.Files;
import warren.runtime.Link;

/**
 * Changes the JRE's own classes in place: a static call at the entry of a method, or before its returns. Retransformation may add no
 * members and natives have no body, so the Java callers are hooked (table and what was tried: docs/hooks.md).
 *
 * <p>The classes are loaded and retransformed in premain and the transformer is taken away again: nothing of this stays registered. The
 * changed bytes are kept beside the agent's jar ({@link JreCache}), so that only the first JVM ever loads ASM for them.
 */
final class JreHooks implements ClassFileTransformer {
    private static final String FILES = "warren/runtime/Files";
    private static final String NET = "warren/runtime/Net";

    /**
     * class, method, descriptor, place (in, out), words, call. The words say what the call gets: aN = argument variable N as
     * reference, iN = as int, f:name = field of `this`, r = the result to be returned (int), R = the same (long), t = `this`. A `?`
     * before the class: it may be missing in this JRE.
     */
    private static final String[][] ALL = {
        {"java/io/FileOutputStream", "open", "(Ljava/lang/String;Z)V", "in", "a1", FILES, "open", "(Ljava/lang/String;)V"},
        {"java/io/FileOutputStream", "write", "(I)V", "in", "i1 f:path f:fd", FILES, "write",
            "(ILjava/lang/String;Ljava/io/FileDescriptor;)V"},
        {"java/io/FileOutputStream", "write", "([B)V", "in", "a1 f:path f:fd", FILES, "write",
            "([BLjava/lang/String;Ljava/io/FileDescriptor;)V"},
        {"java/io/FileOutputStream", "write", "([BII)V", "in", "i3 f:path f:fd", FILES, "writeLength",
            "(ILjava/lang/String;Ljava/io/FileDescriptor;)V"},
        {"java/io/RandomAccessFile", "open", "(Ljava/lang/String;I)V", "in", "a1 i2", FILES, "openMode",
            "(Ljava/lang/String;I)V"},
        {"java/io/RandomAccessFile", "write", "(I)V", "in", "i1 f:path f:fd", FILES, "write",
            "(ILjava/lang/String;Ljava/io/FileDescriptor;)V"},
        {"java/io/RandomAccessFile", "write", "([B)V", "in", "a1 f:path f:fd", FILES, "write",
            "([BLjava/lang/String;Ljava/io/FileDescriptor;)V"},
        {"java/io/RandomAccessFile", "write", "([BII)V", "in", "i3 f:path f:fd", FILES, "writeLength",
            "(ILjava/lang/String;Ljava/io/FileDescriptor;)V"},
        {"java/io/File", "createNewFile", "()Z", "in", "t", FILES, "create", "(Ljava/lang/Object;)V"},
        {"java/io/File", "mkdir", "()Z", "in", "t", FILES, "create", "(Ljava/lang/Object;)V"},
        {"java/io/File", "delete", "()Z", "in", "t", FILES, "delete", "(Ljava/lang/Object;)V"},
        {"java/io/File", "renameTo", "(Ljava/io/File;)Z", "in", "t a1", FILES, "renameBefore",
            "(Ljava/lang/Object;Ljava/lang/Object;)V"},
        {"java/io/File", "renameTo", "(Ljava/io/File;)Z", "out", "t a1", FILES, "renameAfter",
            "(Ljava/lang/Object;Ljava/lang/Object;)V"},
        {"sun/nio/ch/FileChannelImpl", "write", "(Ljava/nio/ByteBuffer;)I", "in", "a1 f:path f:fd", FILES, "write",
            "(Ljava/nio/ByteBuffer;Ljava/lang/String;Ljava/io/FileDescriptor;)V"},
        {"sun/nio/ch/FileChannelImpl", "write", "([Ljava/nio/ByteBuffer;II)J", "in", "a1 i2 i3 f:path f:fd", FILES, "write",
            "([Ljava/nio/ByteBuffer;IILjava/lang/String;Ljava/io/FileDescriptor;)V"},
        {"sun/nio/ch/FileChannelImpl", "write", "(Ljava/nio/ByteBuffer;J)I", "in", "a1 f:path f:fd", FILES, "write",
            "(Ljava/nio/ByteBuffer;Ljava/lang/String;Ljava/io/FileDescriptor;)V"},
        {"sun/nio/ch/FileChannelImpl", "force", "(Z)V", "in", "f:path", FILES, "forceBefore", "(Ljava/lang/String;)V"},
        {"sun/nio/ch/FileChannelImpl", "force", "(Z)V", "out", "f:path", FILES, "forceAfter", "(Ljava/lang/String;)V"},
        {"sun/nio/ch/FileChannelImpl", "truncate", "(J)Ljava/nio/channels/FileChannel;", "in", "f:path", FILES, "truncate",
            "(Ljava/lang/String;)V"},
        {"sun/nio/fs/UnixNativeDispatcher", "open", "(Lsun/nio/fs/UnixPath;II)I", "in", "s0 is1", FILES, "openFlags",
            "(Ljava/lang/Object;I)V"},
        {"sun/nio/fs/UnixNativeDispatcher", "mkdir", "(Lsun/nio/fs/UnixPath;I)V", "in", "s0", FILES, "create",
            "(Ljava/lang/Object;)V"},
        {"sun/nio/fs/UnixNativeDispatcher", "unlink", "(Lsun/nio/fs/UnixPath;)V", "in", "s0", FILES, "delete",
            "(Ljava/lang/Object;)V"},
        {"sun/nio/fs/UnixNativeDispatcher", "rmdir", "(Lsun/nio/fs/UnixPath;)V", "in", "s0", FILES, "delete",
            "(Ljava/lang/Object;)V"},
        {"sun/nio/fs/UnixNativeDispatcher", "rename", "(Lsun/nio/fs/UnixPath;Lsun/nio/fs/UnixPath;)V", "in", "s0 s1", FILES,
            "renameBefore", "(Ljava/lang/Object;Ljava/lang/Object;)V"},
        {"sun/nio/fs/UnixNativeDispatcher", "rename", "(Lsun/nio/fs/UnixPath;Lsun/nio/fs/UnixPath;)V", "out", "s0 s1", FILES,
            "renameAfter", "(Ljava/lang/Object;Ljava/lang/Object;)V"},
        {"java/net/Socket", "connect", "(Ljava/net/SocketAddress;I)V", "in", "t a1", NET, "connect",
            "(Ljava/net/Socket;Ljava/net/SocketAddress;)V"},
        {"sun/nio/ch/SocketChannelImpl", "connect", "(Ljava/net/SocketAddress;)Z", "in", "t a1", NET, "connect",
            "(Ljava/nio/channels/SocketChannel;Ljava/net/SocketAddress;)V"},
        {"sun/nio/ch/SocketChannelImpl", "write", "(Ljava/nio/ByteBuffer;)I", "in", "a1 f:remoteAddress", NET, "send",
            "(Ljava/nio/ByteBuffer;Ljava/net/SocketAddress;)V"},
        {"sun/nio/ch/SocketChannelImpl", "write", "([Ljava/nio/ByteBuffer;II)J", "in", "a1 i2 i3 f:remoteAddress", NET, "send",
            "([Ljava/nio/ByteBuffer;IILjava/net/SocketAddress;)V"},
        {"sun/nio/ch/SocketChannelImpl", "read", "(Ljava/nio/ByteBuffer;)I", "out", "r f:remoteAddress", NET, "receive",
            "(ILjava/net/SocketAddress;)V"},
        {"sun/nio/ch/SocketChannelImpl", "read", "([Ljava/nio/ByteBuffer;II)J", "out", "R f:remoteAddress", NET, "receive",
            "(JLjava/net/SocketAddress;)V"},
    };

    /** Socket streams of JDK 13 and later, and the stream view of a channel. */
    private static final String[][] FROM_13 = {
        {"sun/nio/ch/NioSocketImpl", "write", "([BII)V", "in", "i3 f:address f:port", NET, "send", "(ILjava/net/InetAddress;I)V"},
        {"sun/nio/ch/NioSocketImpl", "read", "([BII)I", "out", "r f:address f:port", NET, "receive",
            "(ILjava/net/InetAddress;I)V"},
    };

    private static final String[][] FROM_17 = {
        {"sun/nio/ch/SocketChannelImpl", "blockingConnect", "(Ljava/net/SocketAddress;J)V", "in", "t a1", NET, "connect",
            "(Ljava/nio/channels/SocketChannel;Ljava/net/SocketAddress;)V"},
        {"sun/nio/ch/SocketChannelImpl", "blockingRead", "([BIIJ)I", "out", "r f:remoteAddress", NET, "receive",
            "(ILjava/net/SocketAddress;)V"},
        {"sun/nio/ch/SocketChannelImpl", "blockingWriteFully", "([BII)V", "in", "i3 f:remoteAddress", NET, "sendLength",
            "(ILjava/net/SocketAddress;)V"},
    };

    /** JDK 8 to 12: the streams over PlainSocketImpl. Never tried here. */
    private static final String[][] UNTIL_12 = {
        {"java/net/SocketOutputStream", "write", "([BII)V", "in", "i3 f:impl.address f:impl.port", NET, "send",
            "(ILjava/net/InetAddress;I)V"},
        {"java/net/SocketInputStream", "read", "([BIII)I", "out", "r f:impl.address f:impl.port", NET, "receive",
            "(ILjava/net/InetAddress;I)V"},
    };

    /** Where these have bodies (21 and later); before, application calls are replaced (Probes). */
    private static final String[] SYNC = {"java/io/FileDescriptor", "sync", "()V", "", "", FILES, "", ""};

    private final String[][] table;
    private final boolean[] done;
    private final JreCache cache;
    private final JreCache made = new JreCache();
    private Throwable failure;

    private JreHooks(String[][] table, JreCache cache) {
        this.table = table;
        this.cache = cache;
        this.done = new boolean[table.length];
    }

    static String[][] table(int version, boolean nativeSync, boolean nativeSetLength) {
        java.util.ArrayList<String[]> rows = new java.util.ArrayList<>(64);
        java.util.Collections.addAll(rows, ALL);
        if (version >= 13) {
            java.util.Collections.addAll(rows, FROM_13);
        } else {
            java.util.Collections.addAll(rows, UNTIL_12);
        }
        if (version >= 17) {
            java.util.Collections.addAll(rows, FROM_17);
        }
        if (!nativeSync) {
            rows.add(new String[] {SYNC[0], "sync", "()V", "in", "n", FILES, "forceBefore", "(Ljava/lang/String;)V"});
            rows.add(new String[] {SYNC[0], "sync", "()V", "out", "n", FILES, "forceAfter", "(Ljava/lang/String;)V"});
        }
        if (!nativeSetLength) {
            rows.add(new String[] {"java/io/RandomAccessFile", "setLength", "(J)V", "in", "f:path", FILES, "truncate",
                "(Ljava/lang/String;)V"});
        }
        return rows.toArray(new String[0][]);
    }

    /** Changes all classes. Returns the first hook that found nothing to change, or null. */
    static String install(Instrumentation inst, Conf conf) throws Exception {
        String spec = System.getProperty("java.specification.version");
        int version = spec.startsWith("1.") ? 8 : Integer.parseInt(spec);
        Files.nativeSync = Modifier.isNative(FileDescriptor.class.getMethod("sync").getModifiers());
        Files.nativeSetLength = Modifier.isNative(RandomAccessFile.class.getMethod("setLength", long.class).getModifiers());
        File kept = JreCache.file();
        JreHooks hooks = new JreHooks(table(version, Files.nativeSync, Files.nativeSetLength), JreCache.read(kept));
        java.util.ArrayList<Class<?>> classes = new java.util.ArrayList<>();
        String last = "";
        for (String[] row : hooks.table) {
            if (!row[0].equals(last)) {
                last = row[0];
                Class<?> type = Class.forName(last.replace('/', '.'), false, null);
                if (!classes.contains(type)) {
                    classes.add(type);
                }
            }
        }
        inst.addTransformer(hooks, true);
        try {
            inst.retransformClasses(classes.toArray(new Class<?>[0]));
        } finally {
            inst.removeTransformer(hooks);
        }
        if (hooks.failure != null) {
            Link.warn("while the JRE's classes were changed: " + hooks.failure);
        }
        for (int i = 0; i < hooks.done.length; i++) {
            if (!hooks.done[i]) {
                return hooks.table[i][0] + "." + hooks.table[i][1] + hooks.table[i][2] + " (" + hooks.table[i][3] + ")";
            }
        }
        hooks.made.write(kept);
        return null;
    }

    @Override
    public byte[] transform(ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] bytes) {
        if (redefined == null || name == null) {
            return null;
        }
        boolean mine = false;
        for (String[] row : table) {
            mine |= row[0].equals(name);
        }
        if (!mine) {
            return null;
        }
        try {
            byte[] kept = cache == null ? null : cache.find(name, bytes);
            if (kept == null) {
                kept = JreChange.change(name, bytes, table, done);
                made.put(name, bytes, kept);
            } else {
                for (int i = 0; i < table.length; i++) {
                    done[i] |= table[i][0].equals(name);
                }
            }
            return kept;
        } catch (Throwable t) {
            failure = t;
            return null;
        }
    }
}
