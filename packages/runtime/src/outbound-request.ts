// What may be asked at all, before anything is looked up: the form of an address and of its headers. Pure, so that a webhook
// can be refused when it is created and not only when it is sent.
import { isIP } from 'node:net'
import { type Allow, checkAddress, isAllowedHost } from './address.ts'
import { Terminal } from './errors.ts'

const urlCharsMax = 8_192
const headersMax = 100
const headerBytesMax = 8_192

/**
 * Throws Terminal `url_refused` or `address_refused`. Numeric tricks (`2130706433`, `0x7f.1`) are addresses after the normal
 * parsing; names are looked up and checked when the connection is made.
 */
export function checkUrl(text: string | URL, allow: Allow = {}, schemes: readonly string[] = ['https:', 'http:']): URL {
  const url = parse(String(text))
  if (!schemes.includes(url.protocol)) throw refused(`the address begins with ${url.protocol}, allowed: ${schemes.join(' ')}`)
  if (url.username !== '' || url.password !== '') throw refused('the address holds a user name or password: send credentials in a header')
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (host === '') throw refused('the address has no host')
  if (isAllowedHost(host, allow)) return url
  if (isIP(host)) checkAddress(host, allow)
  if (/(^|\.)localhost\.?$/.test(host)) checkAddress('127.0.0.1', allow, host)
  return url
}

function parse(text: string): URL {
  if (text.length > urlCharsMax) throw refused(`the address is longer than ${urlCharsMax} characters`)
  const url = URL.parse(text)
  if (!url) throw refused('the address is no URL: write it as https://host/path')
  return url
}

/** They decide where a message ends or whom it reaches, which is not the caller's to say. */
const ownHeaders = /^(host|connection|content-length|transfer-encoding|keep-alive|upgrade|expect|te|trailer|proxy-.*)$/i

/** Throws Terminal `header_refused`; a value is never part of the message. */
export function checkHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(headers)
  if (entries.length > headersMax) throw badHeader(`${entries.length} headers, at most ${headersMax}`)
  for (const [name, value] of entries) {
    if (!/^[\w!#$%&'*+.^`|~-]{1,256}$/.test(name)) throw badHeader('a header name holds characters that no header may have')
    if (ownHeaders.test(name)) throw badHeader(`${name} is set by the client itself`)
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) throw badHeader(`the value of ${name} holds line breaks or characters beyond Latin-1`)
    if (value.length > headerBytesMax) throw badHeader(`the value of ${name} is longer than ${headerBytesMax} bytes`)
  }
  return { ...headers }
}

function refused(why: string): Terminal {
  return new Terminal(`address refused: ${why}`, { code: 'url_refused' })
}

function badHeader(why: string): Terminal {
  return new Terminal(`header refused: ${why}`, { code: 'header_refused' })
}
