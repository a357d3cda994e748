// The names that the interpreter of flows gives to its operations: `activityNames`, `signalEvent` and `itemsEvent` in
// `flows/definition/graph.ts`. Names of steps contain neither `/` nor `$`.
const stepActivity = /^([^/$]+)(?:\$(?:map|reduce|item|generate))?$/;
const flowEvent = /^\$(signal|items)\/(.+)$/s;

/** Returns the step whose handler an activity of a flow runs. */
export function stepOfActivity(flow: string, activity: string): string | undefined {
  const prefix = `${flow}/`;
  if (!activity.startsWith(prefix)) return undefined;
  return stepActivity.exec(activity.slice(prefix.length))?.[1];
}

/** Returns the signal that an event of a flow carries, or the step that gets items from its generator. */
export function flowEventOf(event: string): { readonly signal?: string; readonly step?: string } {
  const [, kind, name] = flowEvent.exec(event) ?? [];
  if (name === undefined) return {};
  return kind === 'signal' ? { signal: name } : { step: name };
}
