// Parses the credential in the headers of a request. Pure. A malformed credential is rejected without a database lookup.
import { defaultPakForm, type PakForm, pakPatternSource } from '@brokkr/contract/auth/pak.ts'

const base58 = '[1-9A-HJ-NP-Za-km-z]'

export interface PakPatterns {
  readonly whole: readonly RegExp[]
  readonly inText: RegExp
}

/** The default form is always accepted, because agents generate their PAKs in it. */
export function createPakPatterns(form: PakForm = defaultPakForm): PakPatterns {
  const sources = [...new Set([pakPatternSource(form), pakPatternSource(defaultPakForm)])]
  const tokens = [`jt_${base58}{1,64}_${base58}{16}`, `one-time-${base58}{1,64}-${base58}{16}`]
  return { whole: sources.map((source) => new RegExp(`^${source}$`)), inText: new RegExp([...sources, ...tokens].join('|')) }
}
const defaultPatterns = createPakPatterns()

/** Longer than any PAK with its scheme and a few spaces; longer values are not parsed. */
const headerCharsMax = 512

export interface PakParts {
  /** For logs; grants nothing. */
  readonly short: string
  readonly long: string
}

export type HeaderCredential =
  | { readonly is: 'pak'; readonly pak: PakParts /** X-Generator-Key opens generators only. */; readonly generatorsOnly: boolean }
  | { readonly is: 'session'; readonly token: string }
  | { readonly is: 'join'; readonly token: PakParts }
  | { readonly is: 'link'; readonly token: PakParts }
  | { readonly is: 'missing' | 'malformed' }

/** `Authorization` wins, then the generator header, then the cookie, even if the first one is malformed: there is no fallback. */
export function parseCredential(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  cookieName: string | null = null,
  patterns: PakPatterns = defaultPatterns,
): HeaderCredential {
  const authorization = headers['authorization']
  if (typeof authorization === 'string') return credential(withoutScheme(authorization), { generatorsOnly: false, patterns })
  const generatorKey = headers['x-generator-key']
  if (typeof generatorKey === 'string') return credential(generatorKey.trim(), { generatorsOnly: true, patterns })
  if (authorization !== undefined || generatorKey !== undefined) return { is: 'malformed' }
  const token = cookieName === null ? null : findCookie(headers['cookie'], cookieName)
  if (token === null) return { is: 'missing' }
  return sessionToken.test(token) ? { is: 'session', token } : { is: 'malformed' }
}

const joinToken = new RegExp(`^[Jj][Oo][Ii][Nn] +jt_(${base58}{1,64})_(${base58}{16,128})$`)

/** Endpoints that need a join token accept no other credential. */
export function parseJoinToken(headers: Readonly<Record<string, string | string[] | undefined>>): HeaderCredential {
  const { authorization } = headers
  if (authorization === undefined) return { is: 'missing' }
  const text = typeof authorization === 'string' && authorization.length <= headerCharsMax ? authorization.trim() : ''
  const [, short, long] = joinToken.exec(text) ?? []
  return short === undefined || long === undefined ? { is: 'malformed' } : { is: 'join', token: { short, long } }
}

const linkToken = new RegExp(`^one-time-(${base58}{1,64})-(${base58}{16,128})$`)

export function parseLinkToken(text: string): HeaderCredential {
  const [, short, long] = linkToken.exec(text.trim()) ?? []
  return short === undefined || long === undefined ? { is: 'malformed' } : { is: 'link', token: { short, long } }
}

/** 32 random bytes in base64url. */
const sessionToken = /^[A-Za-z0-9_-]{43}$/

/** If two cookies have the same name, none is accepted: a page of a sibling domain may have set one. */
function findCookie(header: string | string[] | undefined, name: string): string | null {
  if (typeof header !== 'string' || header.length > cookieCharsMax) return null
  const found = header.split(';').flatMap((pair) => {
    const at = pair.indexOf('=')
    return at > 0 && pair.slice(0, at).trim() === name ? [pair.slice(at + 1).trim()] : []
  })
  return found.length === 1 ? (found[0] ?? null) : null
}
const cookieCharsMax = 16_384

/** Exactly three parts: the prefix, the short token (by default BR and six characters), a long token in base58. */
export function parsePak(text: string, { whole }: PakPatterns = defaultPatterns): PakParts | null {
  for (const pattern of whole) {
    const [, short, long] = pattern.exec(text) ?? []
    if (short !== undefined && long !== undefined) return { short, long }
  }
  return null
}

/** Whether a query contains text in the form of a PAK, a join token or a sign-in token, percent-encoded or not. */
export function containsCredential(query: string, { inText }: PakPatterns = defaultPatterns): boolean {
  return inText.test(query) || (query.includes('%') && inText.test(decoded(query)))
}

function credential(text: string, { generatorsOnly, patterns }: { generatorsOnly: boolean; patterns: PakPatterns }): HeaderCredential {
  const pak = text.length > headerCharsMax ? null : parsePak(text, patterns)
  return pak === null ? { is: 'malformed' } : { is: 'pak', pak, generatorsOnly }
}

/** Accepts `Bearer` in any case with any number of spaces, or the bare PAK; another scheme makes it malformed. */
function withoutScheme(header: string): string {
  return header.length > headerCharsMax ? header : header.trim().replace(/^bearer +/i, '')
}

/** Decodes byte by byte, so that a broken escape cannot hide a PAK beside it; PAKs are ASCII. */
function decoded(query: string): string {
  return query.replace(/%[0-9a-f]{2}/gi, (escape) => String.fromCharCode(Number.parseInt(escape.slice(1), 16)))
}
