/** Whether the inspector listens for a debugger. A breakpoint stops the event loop for as long as a person looks at it. */
export function isDebugged(): boolean {
  try {
    return process.getBuiltinModule('node:inspector').url() !== undefined;
  } catch {
    // A Node.js without an inspector.
    return false;
  }
}
