package warren.agent;

import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** The bytecode side of {@link JreHooks}, apart from it so that ASM is loaded only where bytes are not in the cache. Pure. */
final class JreChange {
    private JreChange() {}

    /** Changes one class; sets {@code done} of each row that found its method. */
    static byte[] change(final String name, byte[] bytes, final String[][] table, final boolean[] done) {
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
