"""Client libraries nobody here wrote, against a live server: what they find by discovery has to be all they need.

To add a library of Python, write a test in a module of its own: take the fixture ``provider``, make clients with
``provider.client(...)``, let ``provider.person`` go where the library sends the browser (``person.visit(url)`` returns
the address the client is answered at), and add the library to the group ``dev`` in pyproject.toml, then ``make
requirements``.

To add one of another language, write a program that talks to us in lines of JSON, one value each:

- it reads one line: what the test gives it to work with (issuer, clients, …);
- ``{"visit": url, "decision": "deny"}`` sends the person's browser somewhere; the answer is the address it ended at
  (``decision`` is "allow" unless it says otherwise);
- ``{"sign_out": true}`` lets the person sign out here; the answer is the logout token that the client got;
- ``{"passed": "what held"}`` tells of a step; the test names every step there must be, so that none is left out
  unnoticed;
- it ends with status 0, or says on stderr what went wrong.

``program.converse`` is the other end. JavaScript goes to ``javascript/`` (``npm install NAME`` there; package.json and
package-lock.json are committed, with hashes and without the address of a registry), Go to ``go/`` (``go get``; go.mod
and go.sum are committed). Node.js and npm have to be there in CI, Go need not.
"""
