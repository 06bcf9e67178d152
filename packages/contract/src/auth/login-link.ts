// Sign-in links. The one-time token is in the fragment of the URL, which browsers do not send; the console sends it in a body and gets a
// session cookie.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { Timestamp } from '../wire.ts'

export const createLoginLink = endpoint({
  method: 'POST',
  path: '/api/v1/auth/links',
  summary: 'Create a link that signs in once with the permissions of the PAK',
  body: z.object({ readonly: z.boolean().optional() }),
  bodyKind: 'optional',
  success: 201,
  response: z.object({ url: z.string(), expires_at: Timestamp }),
  issuesSecret: true,
  errors: ['forbidden', 'validation_failed'],
})

export const exchangeLoginLink = endpoint({
  method: 'POST',
  path: '/api/v1/auth/exchange',
  summary: 'Exchange the token of a sign-in link for a session cookie; the token is valid once',
  credential: 'link',
  body: z.object({ token: z.string().max(256) }),
  success: 201,
  response: z.object({ expires_at: Timestamp, readonly: z.boolean() }),
  issuesSecret: true,
  errors: ['origin_refused'],
})
