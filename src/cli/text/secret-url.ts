/** Whether a word is a URL with a user, a password or a query. Such a URL must not reach a message. */
export function isSecretUrl(word: string): boolean {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(word)) return false;
  try {
    const { username, password, search } = new URL(word);
    return username !== '' || password !== '' || search !== '';
  } catch {
    return true;
  }
}
