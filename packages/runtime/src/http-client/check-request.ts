// Checks URL and headers of an outbound request before name resolution. Pure, so that a webhook with a wrong address is rejected
// when it is created.
import { isIP } from 'node:net'
import { Terminal } from '../errors.ts'
import { type Allow, checkAddress, isAllowedHost } from './address.ts'

const urlCharsMax = 8_192
const headersMax = 100
const headerBytesMax = 8_192

/** Throws Terminal `url_refused` or `address_refused`. URL parsing normalizes numeric forms (`2130706433`, `0x7f.1`) to addresses;
 *  names are resolved and checked on connect. */
export function checkUrl(text: string | URL, allow: Allow = {}, schemes: readonly string[] = ['https:', 'http:']): URL {
  const url = parse(String(text))
  if (!schemes.includes(url.protocol)) throw requestError(`the address begins with ${url.protocol}, allowed: ${schemes.join(' ')}`)
  if (url.username !== '' || url.password !== '')
    throw requestError('the address holds a user name or password: send credentials in a header')
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (host === '') throw requestError('the address has no host')
  if (isAllowedHost(host, allow)) return url
  if (isIP(host)) checkAddress(host, allow)
  if (/(^|\.)localhost\.?$/.test(host)) checkAddress('127.0.0.1', allow, host)
  return url
}

function parse(text: string): URL {
  if (text.length > urlCharsMax) throw requestError(`the address is longer than ${urlCharsMax} characters`)
  const url = URL.parse(text)
  if (!url) throw requestError('the address is no URL: write it as https://host/path')
  return url
}

/** Headers that decide framing or destination; callers must not set them. */
const ownHeaders = /^(host|connection|content-length|transfer-encoding|keep-alive|upgrade|expect|te|trailer|proxy-.*)$/i

/** Throws Terminal `header_refused`; a value is never part of the message. */
export function checkHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(headers)
  if (entries.length > headersMax) throw headerError(`${entries.length} headers, at most ${headersMax}`)
  for (const [name, value] of entries) {
    if (!/^[\w!#$%&'*+.^`|~-]{1,256}$/.test(name)) throw headerError('a header name holds characters that no header may have')
    if (ownHeaders.test(name)) throw headerError(`${name} is set by the client itself`)
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) throw headerError(`the value of ${name} holds line breaks or characters beyond Latin-1`)
    if (value.length > headerBytesMax) throw headerError(`the value of ${name} is longer than ${headerBytesMax} bytes`)
  }
  return { ...headers }
}

function requestError(why: string): Terminal {
  return new Terminal(`address refused: ${why}`, { code: 'url_refused' })
}

function headerError(why: string): Terminal {
  return new Terminal(`header refused: ${why}`, { code: 'header_refused' })
}
