// What the generated code is marked with, and Java has no more since version 11. In a project: javax.annotation-api.

package javax.annotation;

public @interface Generated {
    String[] value();

    String comments() default "";

    String date() default "";
}
