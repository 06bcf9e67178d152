// Removes credentials from text: URLs lose user info, query and fragment; anything with the form of a key, token or password is
// masked. Prefers masking too much. All patterns are linear.
import { mask } from '../secret.ts'

export const textCharsMax = 4096
const cutMark = '… (cut)'

/** The result is never longer than `charsMax`. */
export function redactText(text: string, charsMax = textCharsMax): string {
  const redacted = patterns.reduce((rest, { find, put }) => rest.replace(find, put), redactUrls(workPiece(text, charsMax)))
  return redacted.length <= charsMax && text.length <= 2 * charsMax
    ? redacted
    : `${redacted.slice(0, Math.max(0, charsMax - cutMark.length))}${cutMark}`
}

/** Bounds the work before any pattern runs. A credential cut in two is not recognizable, so the last word is dropped with the cut. */
function workPiece(text: string, charsMax: number): string {
  if (text.length <= 2 * charsMax) return text
  const piece = text.slice(0, 2 * charsMax)
  const lastGap = Math.max(piece.lastIndexOf(' '), piece.lastIndexOf('\n'), piece.lastIndexOf('\t'))
  return lastGap < 0 ? firstUrlPart(piece) : piece.slice(0, lastGap)
}

/** A single long word: keeps only the beginning of a URL, which cannot be part of a credential. */
function firstUrlPart(word: string): string {
  return word.match(/^https?:\/\/[^\s/?#@]{1,253}\//i)?.[0] ?? ''
}

const urls = /[a-z][a-z0-9+.-]{1,15}:\/\/[^\s"'<>`]*/gi

function redactUrls(text: string): string {
  return text.replace(urls, (url) => {
    const [scheme, rest] = splitOnce(url, '://')
    const [place, tail] = splitAt(dropUserInfo(scheme, rest), /[?#]/)
    return `${scheme}://${place}${tail === '' ? '' : `${tail.charAt(0)}${mask}`}`
  })
}

/** A password can contain an unescaped slash or `@`: text that is not host and port, or not a web address, is cut at the last `@`. */
function dropUserInfo(scheme: string, rest: string): string {
  const [authority] = splitAt(rest, /[/?#]/)
  const isPlainHost = /^[^:@]*(:\d*)?$|^\[[^\]]*\](:\d*)?$/.test(authority)
  const isWeb = /^(https?|wss?)$/i.test(scheme)
  const searched = isWeb && (isPlainHost || authority.includes('@')) ? authority : rest
  return rest.slice(searched.lastIndexOf('@') + 1)
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator)
  return [text.slice(0, at), text.slice(at + separator.length)]
}

function splitAt(text: string, separator: RegExp): [string, string] {
  const at = text.search(separator)
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at)]
}

const strongNames =
  'passw(?:or)?d|passphrase|pwd|api[-_]?key|access[-_]?key|client[-_]?secret|private[-_]?key|generator[-_]key|encryption[-_]?key'
const headerNames = '(?:proxy-)?authorization|(?:set-)?cookie|x-signature'
const assigned = `(\\\\?["'])(?:(?!\\2)[^\\r\\n])*\\2?|[^\\s"',;&}\\\\]+`

/** Order matters: blocks before words, header lines before pairs, pairs before single tokens. */
const patterns: readonly { find: RegExp; put: string }[] = [
  { find: /-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[^]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)/g, put: `${mask} (private key)` },
  { find: new RegExp(`((?:${headerNames})\\\\?["']?\\s*[:=]\\s*\\\\?["']?)[^\\r\\n"']+`, 'gi'), put: `$1${mask}` },
  { find: new RegExp(`((?:${strongNames})\\\\?["']?\\s*[:=]\\s*)(?:${assigned})`, 'gi'), put: `$1${mask}` },
  { find: new RegExp(`((?:secret|token)(?:\\s*=\\s*|\\\\?["']\\s*:\\s*))(?:${assigned})`, 'gi'), put: `$1${mask}` },
  { find: /\b(Bearer\s+)(?!tokens?\b)[^\s"',;]+/gi, put: `$1${mask}` },
  { find: /\b(Basic\s+)(?=[a-z]*[A-Z0-9+/=])[A-Za-z0-9+/]{6,}={0,2}/g, put: `$1${mask}` },
  { find: /_BR[A-Za-z0-9]{4,}_[A-Za-z0-9]{8,}/g, put: `_${mask}` },
  { find: /jt_[A-Za-z0-9-]{2,}_[\w-]{8,}/g, put: `jt_${mask}` },
  { find: /one-time-[A-Za-z0-9]{2,}-[A-Za-z0-9]{8,}/g, put: `one-time-${mask}` },
  { find: /\b[A-Za-z][A-Za-z0-9]{0,31}_[A-Za-z0-9]{5,64}_[1-9A-HJ-NP-Za-km-z]{22,128}(?![A-Za-z0-9_])/g, put: mask },
  { find: /whsec_[\w+/=-]+/g, put: `whsec_${mask}` },
  { find: /eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?/g, put: mask },
  { find: /(?:gh[pousr]_|github_pat_|glpat-|xox[abpr]-)[\w-]{10,}/g, put: mask },
]
