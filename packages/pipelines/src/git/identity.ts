// Names and addresses of authors as git stores them. Pure.
export interface Identity {
  readonly name: string
  readonly email: string
}

/** git removes these at both ends; newer versions keep a period. */
const EDGE = String.raw`[\x00- .,:;<>"\\']+`
const edges = new RegExp(`^${EDGE}|${EDGE}$`, 'g')

/** The form that git gives a name or address of a commit. A form of any git version is brought to the same one. */
export const normalizeIdentityPart = (text: string): string => text.replaceAll(edges, '').replaceAll(/[\n<>]/g, '')

/** `line`: "name <email> seconds zone" of a commit. */
export function isIdentityOf(line: string, { name, email }: Identity): boolean {
  const parts = /^([^\n]*) <([^>]*)> \d+ [+-]\d+$/.exec(line)
  if (parts === null) return false
  const isSame = (stored: string, wanted: string): boolean => normalizeIdentityPart(stored) === normalizeIdentityPart(wanted)
  return isSame(parts[1]!, name) && isSame(parts[2]!, email)
}
