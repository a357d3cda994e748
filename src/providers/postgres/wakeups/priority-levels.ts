/**
 * The priorities of a name's items that are not flagged, the highest first, as the common table `level`: one entry of the
 * index for each, and no more of them than are asked for. The name is `wanted_key`.
 */
export function priorityLevels(schema: string, suspect: string): string {
  const highest = (below: string) =>
    `(SELECT one.priority FROM ${schema}.worker_queue AS one
      WHERE one.definition_key = wanted_key AND one.suspect = ${suspect} AND NOT one.cancel_requested ${below}
      ORDER BY one.priority DESC LIMIT 1)`;
  return `WITH RECURSIVE level (priority) AS (
      SELECT ${highest('')}
      UNION ALL
      SELECT ${highest('AND one.priority < level.priority')} FROM level WHERE level.priority IS NOT NULL)`;
}
