// Finds the key in the headers of a request: pure, and the only reader of their form. What is not exactly a key is no
// key, and no table is asked about it.
const base58 = '[1-9A-HJ-NP-Za-km-z]'
const pakPattern = new RegExp(`^brokkr_(BR${base58}{6})_(${base58}{16,128})$`)
/** Longer than any key with its scheme word and a few spaces; nothing longer is looked at. */
const headerCharsMax = 512

export interface PakParts {
  /** For people and logs; opens nothing. */
  readonly short: string
  readonly long: string
}

export type HeaderCredential =
  | { readonly is: 'pak'; readonly pak: PakParts /** X-Generator-Key opens generators only. */; readonly generatorsOnly: boolean }
  | { readonly is: 'session'; readonly token: string }
  | { readonly is: 'join'; readonly token: PakParts }
  | { readonly is: 'missing' | 'malformed' }

/** `Authorization` wins, then the generator's header, then the cookie, even if the first is broken: nobody gets in by a second guess. */
export function credentialOf(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  cookieName: string | null = null,
): HeaderCredential {
  const authorization = headers['authorization']
  if (typeof authorization === 'string') return credential(withoutScheme(authorization), false)
  const generatorKey = headers['x-generator-key']
  if (typeof generatorKey === 'string') return credential(generatorKey.trim(), true)
  if (authorization !== undefined || generatorKey !== undefined) return { is: 'malformed' }
  const token = cookieName === null ? null : cookieOf(headers['cookie'], cookieName)
  if (token === null) return { is: 'missing' }
  return sessionToken.test(token) ? { is: 'session', token } : { is: 'malformed' }
}

const joinToken = new RegExp(`^[Jj][Oo][Ii][Nn] +jt_(${base58}{1,64})_(${base58}{16,128})$`)

/** Where a join token is asked for nothing else opens, a key neither. */
export function joinTokenOf(headers: Readonly<Record<string, string | string[] | undefined>>): HeaderCredential {
  const { authorization } = headers
  if (authorization === undefined) return { is: 'missing' }
  const text = typeof authorization === 'string' && authorization.length <= headerCharsMax ? authorization.trim() : ''
  const [, short, long] = joinToken.exec(text) ?? []
  return short === undefined || long === undefined ? { is: 'malformed' } : { is: 'join', token: { short, long } }
}

/** 32 random bytes in base64url. */
const sessionToken = /^[A-Za-z0-9_-]{43}$/

/** Of two cookies with the same name (one may be planted by a neighbour's page) none counts. */
function cookieOf(header: string | string[] | undefined, name: string): string | null {
  if (typeof header !== 'string' || header.length > cookieCharsMax) return null
  const found = header.split(';').flatMap((pair) => {
    const at = pair.indexOf('=')
    return at > 0 && pair.slice(0, at).trim() === name ? [pair.slice(at + 1).trim()] : []
  })
  return found.length === 1 ? (found[0] ?? null) : null
}
const cookieCharsMax = 16_384

/** Exactly three parts: the prefix, a short token of eight characters that begins with BR, a long token in base58. */
export function parsePak(text: string): PakParts | null {
  const [, short, long] = pakPattern.exec(text) ?? []
  return short === undefined || long === undefined ? null : { short, long }
}

const credentialShapes = new RegExp(`brokkr_BR${base58}{6}_${base58}{16}|jt_${base58}{1,64}_${base58}{16}`)

/** Whether a query holds something shaped like a key or a join token, percent-encoded or not. */
export function holdsCredential(query: string): boolean {
  return credentialShapes.test(query) || (query.includes('%') && credentialShapes.test(decoded(query)))
}

function credential(text: string, generatorsOnly: boolean): HeaderCredential {
  const pak = text.length > headerCharsMax ? null : parsePak(text)
  return pak === null ? { is: 'malformed' } : { is: 'pak', pak, generatorsOnly }
}

/** `Bearer` in any case and with any number of spaces, or the bare key; any other word stays and makes it no key. */
function withoutScheme(header: string): string {
  return header.length > headerCharsMax ? header : header.trim().replace(/^bearer +/i, '')
}

/** Byte by byte, so that a broken escape cannot hide a key that stands beside it; keys are plain ASCII. */
function decoded(query: string): string {
  return query.replace(/%[0-9a-f]{2}/gi, (escape) => String.fromCharCode(Number.parseInt(escape.slice(1), 16)))
}
