/**
 * The name of the built-in class that an object is of, also where it comes from another realm (a vm context, a frame),
 * whose classes are not those of this one. `Object` for all others.
 */
export function builtinKind(value: object): string {
  return Object.prototype.toString.call(value).slice('[object '.length, -1);
}
