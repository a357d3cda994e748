/** Whether a value is a PostgreSQL URL. In its own module, so that importing it does not load the driver. */
export function isPostgresUrl(url: unknown): url is string {
  return typeof url === 'string' && /^postgres(ql)?:\/\//i.test(url) && URL.canParse(url);
}
