package warren.agent;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileDescriptor;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.Modifier;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import warren.runtime.Files;

/**
 * Changes the JRE's own classes in place: a static call at the entry of a method, or before its returns. Retransformation may add no
 * members and natives have no body, so the Java callers are hooked (table and what was tried: docs/hooks.md).
 *
 * <p>The changed class files are made from those of the JRE and kept beside the agent's jar ({@link JreCache}), so that only the first
 * JVM ever loads ASM for them. The classes are changed once, in premain; no transformer stays registered. (A transformer and
 * not redefineClasses: only after a transformer may java.base see the runtime's classes.)
 */
final class JreHooks implements ClassFileTransformer {
    private static final String FILES = "warren/runtime/Files";
    private static final String NET = "warren/runtime/Net";

    /**
     * class, method, descriptor, place (in, out), words, call. The words say what the call gets: aN = argument variable N as
     * reference, iN = as int, sN and isN = the same in a static method, f:name = field of `this`, r = the result to be returned (int),
     * R = the same (long), t = `this`, n = null.
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
        {"java/io/File", "renameTo", "(Ljava/io/File;)Z", "out", "r t a1", FILES, "renameAfter",
            "(ZLjava/lang/Object;Ljava/lang/Object;)V"},
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

    /** JDK 8 to 12: the streams over PlainSocketImpl. All three forms of write end in socketWrite. */
    private static final String[][] UNTIL_12 = {
        {"java/net/SocketOutputStream", "socketWrite", "([BII)V", "in", "i3 f:impl.address f:impl.port", NET, "send",
            "(ILjava/net/InetAddress;I)V"},
        {"java/net/SocketInputStream", "read", "([BIII)I", "out", "r f:impl.address f:impl.port", NET, "receive",
            "(ILjava/net/InetAddress;I)V"},
    };

    /** Where these have bodies (21 and later); before, application calls are replaced (Probes). */
    private static final String[] SYNC = {"java/io/FileDescriptor", "sync", "()V", "", "", FILES, "", ""};

    private final JreCache cache;

    private JreHooks(JreCache cache) {
        this.cache = cache;
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
    static String install(Instrumentation inst) throws Exception {
        String spec = System.getProperty("java.specification.version");
        int version = spec.startsWith("1.") ? 8 : Integer.parseInt(spec);
        Files.nativeSync = Modifier.isNative(FileDescriptor.class.getMethod("sync").getModifiers());
        Files.nativeSetLength = Modifier.isNative(RandomAccessFile.class.getMethod("setLength", long.class).getModifiers());
        String[][] table = table(version, Files.nativeSync, Files.nativeSetLength);
        ArrayList<String> names = new ArrayList<>();
        for (String[] row : table) {
            if (!names.contains(row[0])) {
                names.add(row[0]);
            }
        }
        File file = JreCache.file();
        JreCache cache = JreCache.read(file, names);
        if (cache == null) {
            cache = new JreCache();
            boolean[] done = new boolean[table.length];
            for (String name : names) {
                cache.put(name, JreChange.change(name, original(name), table, done));
            }
            for (int i = 0; i < done.length; i++) {
                if (!done[i]) {
                    return table[i][0] + "." + table[i][1] + table[i][2] + " (" + table[i][3] + ")";
                }
            }
            cache.write(file);
        }
        Class<?>[] classes = new Class<?>[names.size()];
        for (int i = 0; i < classes.length; i++) {
            classes[i] = Class.forName(names.get(i).replace('/', '.'), false, null);
        }
        JreHooks changes = new JreHooks(cache);
        inst.addTransformer(changes, true);
        try {
            inst.retransformClasses(classes);
        } finally {
            inst.removeTransformer(changes);
        }
        return null;
    }

    @Override
    public byte[] transform(ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] bytes) {
        return redefined == null ? null : cache.find(name);
    }

    /** The class file as it lies in the JRE. */
    private static byte[] original(String name) throws IOException {
        try (InputStream in = ClassLoader.getSystemResourceAsStream(name + ".class")) {
            if (in == null) {
                throw new IOException("the class file of " + name + " is not to be had from this JRE");
            }
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            byte[] buffer = new byte[8192];
            for (int n = in.read(buffer); n > 0; n = in.read(buffer)) {
                out.write(buffer, 0, n);
            }
            return out.toByteArray();
        }
    }
}
