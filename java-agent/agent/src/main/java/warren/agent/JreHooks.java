package warren.agent;

import java.io.FileDescriptor;
import java.io.RandomAccessFile;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.Modifier;
import java.security.ProtectionDomain;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import warren.runtime.Conf;
import warren.runtime.Files;
import warren.runtime.Link;

/**
 * Changes the JRE's own classes in place: a static call at the entry of a method, or before its returns. Retransformation may add no
 * members and natives have no body, so the Java callers are hooked (table and what was tried: docs/hooks.md).
 *
 * <p>The classes are loaded and retransformed in premain and the transformer is taken away again: nothing of this stays registered.
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
    private Throwable failure;

    private JreHooks(String[][] table) {
        this.table = table;
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
        JreHooks hooks = new JreHooks(table(version, Files.nativeSync, Files.nativeSetLength));
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
            return change(name, bytes);
        } catch (Throwable t) {
            failure = t;
            return null;
        }
    }

    private byte[] change(final String name, byte[] bytes) {
        ClassReader reader = new ClassReader(bytes);
        ClassWriter writer = new ClassWriter(reader, 0);
        final java.util.HashMap<String, String> fields = new java.util.HashMap<>();
        reader.accept(new ClassVisitor(AppClass.API, writer) {
            @Override
            public org.objectweb.asm.FieldVisitor visitField(int access, String field, String desc, String sig, Object value) {
                fields.put(field, desc);
                return super.visitField(access, field, desc, sig, value);
            }

            @Override
            public MethodVisitor visitMethod(int access, String method, String desc, String sig, String[] exceptions) {
                MethodVisitor mv = super.visitMethod(access, method, desc, sig, exceptions);
                if ((access & (Opcodes.ACC_NATIVE | Opcodes.ACC_ABSTRACT)) != 0) {
                    return mv;
                }
                for (int i = 0; i < table.length; i++) {
                    String[] row = table[i];
                    if (row[0].equals(name) && row[1].equals(method) && row[2].equals(desc)) {
                        mv = new Call(mv, name, fields, row);
                        done[i] = true;
                    }
                }
                return mv;
            }
        }, 0);
        return writer.toByteArray();
    }

    /** Inserts one row's call. */
    private static final class Call extends MethodVisitor {
        private final String owner;
        private final java.util.Map<String, String> fields;
        private final String[] row;

        Call(MethodVisitor next, String owner, java.util.Map<String, String> fields, String[] row) {
            super(AppClass.API, next);
            this.owner = owner;
            this.fields = fields;
            this.row = row;
        }

        @Override
        public void visitCode() {
            super.visitCode();
            if (row[3].equals("in")) {
                call();
            }
        }

        @Override
        public void visitInsn(int opcode) {
            if (row[3].equals("out") && opcode >= Opcodes.IRETURN && opcode <= Opcodes.RETURN) {
                call();
            }
            super.visitInsn(opcode);
        }

        private void call() {
            String words = row[4];
            int from = 0;
            while (from < words.length()) {
                int end = words.indexOf(' ', from);
                end = end < 0 ? words.length() : end;
                word(words.substring(from, end));
                from = end + 1;
            }
            mv.visitMethodInsn(Opcodes.INVOKESTATIC, row[5], row[6], row[7], false);
        }

        private void word(String word) {
            switch (word.charAt(0)) {
                case 't':
                    mv.visitVarInsn(Opcodes.ALOAD, 0);
                    break;
                case 'a':
                case 's':
                    mv.visitVarInsn(Opcodes.ALOAD, word.charAt(1) - '0');
                    break;
                case 'i':
                    mv.visitVarInsn(Opcodes.ILOAD, word.charAt(word.length() - 1) - '0');
                    break;
                case 'r':
                    mv.visitInsn(Opcodes.DUP);
                    break;
                case 'R':
                    mv.visitInsn(Opcodes.DUP2);
                    break;
                case 'n':
                    mv.visitInsn(Opcodes.ACONST_NULL);
                    break;
                default:
                    field(word.substring(2));
            }
        }

        private void field(String name) {
            mv.visitVarInsn(Opcodes.ALOAD, 0);
            if (name.startsWith("impl.")) {
                mv.visitFieldInsn(Opcodes.GETFIELD, owner, "impl", fields.get("impl"));
                name = name.substring(5);
                mv.visitFieldInsn(Opcodes.GETFIELD, "java/net/SocketImpl", name, name.equals("port") ? "I" : "Ljava/net/InetAddress;");
            } else if (fields.containsKey(name)) {
                mv.visitFieldInsn(Opcodes.GETFIELD, owner, name, fields.get(name));
            } else {
                // address and port of NioSocketImpl are inherited from SocketImpl
                mv.visitFieldInsn(Opcodes.GETFIELD, owner, name, name.equals("port") ? "I" : "Ljava/net/InetAddress;");
            }
        }

        @Override
        public void visitMaxs(int maxStack, int maxLocals) {
            super.visitMaxs(maxStack + 8, maxLocals);
        }
    }
}
