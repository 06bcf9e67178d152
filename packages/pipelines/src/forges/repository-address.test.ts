import type { ForgeType } from '@brokkr/contract/pipelines/strategy.ts'
import { expect, test } from 'vitest'
import { ForgeError } from './forge.ts'
import { classifyAnswer } from './forge-http.ts'
import { toRepositoryAddress } from './repository-address.ts'

const address = (type: ForgeType, url: string, more: { apiUrl?: string; allowInsecure?: boolean; allowedHosts?: string[] } = {}) =>
  toRepositoryAddress({ type, url, allowInsecure: false, allowedHosts: [], ...more })

test.each([
  ['github', 'https://github.com/o/r.git', 'https://api.github.com', 'o', 'r'],
  ['github', 'https://ghe.example.com/o/r', 'https://ghe.example.com/api/v3', 'o', 'r'],
  ['gitlab', 'https://gitlab.com/g/r.git', 'https://gitlab.com/api/v4', 'g', 'r'],
  ['gitlab', 'https://git.example.com:8443/g/sub/r', 'https://git.example.com:8443/api/v4', 'g/sub', 'r'],
  ['gitea', 'https://gitea.example.com/o/r', 'https://gitea.example.com/api/v1', 'o', 'r'],
  ['bitbucket-server', 'https://bb.example.com/scm/K/r.git', 'https://bb.example.com/rest/api/1.0', 'K', 'r'],
  ['azure-devops', 'https://dev.azure.com/org/my%20project/_git/r', 'https://dev.azure.com/org/my%20project/_apis/git', 'org', 'r'],
] as const)('%s at %s: the API base is derived [P43]', (type, url, apiUrl, owner, repository) => {
  expect(address(type, url)).toMatchObject({ forge: type, apiUrl, owner, repository })
})

test('a given API address is used unchanged, with http as well [P43]', () => {
  const apiUrl = 'http://127.0.0.1:8080/api/v4'
  expect(address('gitlab', 'https://gitlab.com/g/r', { apiUrl, allowInsecure: true }).apiUrl).toBe(apiUrl)
})

test.each([
  ['http without permission', 'http://gitlab.com/api/v4', [], /only https/],
  ['a host that is not allowed', 'https://elsewhere.example/api/v4', ['gitlab.com'], /host is not allowed/],
  ['credentials', 'https://u:secret-word@gitlab.com/api/v4', [], /holds credentials/],
  ['no URL', 'gitlab', [], /not a URL/],
])('a given API address with %s is refused', (_what, apiUrl, allowedHosts, message) => {
  expect(() => address('gitlab', 'https://gitlab.com/g/r', { apiUrl, allowedHosts })).toThrow(message)
})

test('a given API address on the host of the repository needs no permission of its own', () => {
  const allowed = { allowedHosts: ['github.com', '*.example.com'] }
  for (const apiUrl of ['https://api.github.com', 'https://github.com/api', 'https://api.example.com'])
    expect(address('github', 'https://github.com/o/r', { apiUrl, ...allowed }).apiUrl).toBe(apiUrl)
})

test.each([
  ['', 'github'],
  ['git@github.com:o/r.git', 'github'],
  ['ssh://git@github.com/o/r', 'github'],
  ['http://github.com/o/r', 'github'],
  ['https://user:secret-word@github.com/o/r', 'github'],
  ['https://github.com/o', 'github'],
  ['https://github.com/o/r?x=1', 'github'],
  ['https://bb.example.com/o/r', 'bitbucket-server'],
  ['https://dev.azure.com/org/_git/r', 'azure-devops'],
] as const)('"%s" of %s is refused as a repository URL', (url, type) => {
  try {
    address(type, url)
  } catch (error) {
    expect(error).toBeInstanceOf(ForgeError)
    expect((error as ForgeError).failure).toMatchObject({ class: 'configuration', reason: 'InvalidRepositoryURL' })
    expect((error as ForgeError).message).not.toContain('secret-word')
    return
  }
  expect.unreachable()
})

test('a host outside the allowed ones is refused', () => {
  expect(() => address('github', 'https://github.com/o/r', { allowedHosts: ['*.example.com'] })).toThrow(/host is not allowed/)
  expect(address('github', 'https://a.example.com/o/r', { allowedHosts: ['*.example.com'] }).host).toBe('a.example.com')
})

const nowMs = Date.UTC(2026, 0, 1)
test.each([
  [200, {}, null],
  [201, {}, null],
  [203, {}, 'configuration AuthenticationFailed'],
  [200, { 'content-type': 'text/html; charset=utf-8' }, 'configuration AuthenticationFailed'],
  [301, {}, 'configuration RepositoryMoved'],
  [400, {}, 'configuration ForgeRefusedRequest'],
  [401, {}, 'configuration AuthenticationFailed'],
  [403, {}, 'configuration AccessForbidden'],
  [403, { 'retry-after': '7' }, 'rate-limited RateLimited 7000'],
  [403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(nowMs / 1000 + 30) }, 'rate-limited RateLimited 30000'],
  [404, {}, 'configuration RepositoryNotFound'],
  [409, {}, 'transient ForgeFailed'],
  [422, {}, 'configuration ForgeRefusedRequest'],
  [429, { 'retry-after': '7' }, 'rate-limited RateLimited 7000'],
  [429, { 'retry-after': new Date(nowMs + 9000).toUTCString() }, 'rate-limited RateLimited 9000'],
  [429, {}, 'rate-limited RateLimited 60000'],
  [500, {}, 'transient ForgeFailed'],
  [503, {}, 'transient ForgeFailed'],
])('an answer %i with %j means %s', (status, headers, expected) => {
  const failure = classifyAnswer({ status, headers }, { where: 'GET https://forge', nowMs })
  const text =
    failure === null ? null : [failure.class, failure.reason, failure.retryAfterMs].filter((part) => part !== undefined).join(' ')
  expect(text).toBe(expected)
})
